import os,sys,re
os.chdir(sys.argv[1])
def rd(p): return open(p).read()
def wr(p,s): open(p,'w').write(s)
def sub(p,a,b,n=1):
    s=rd(p); assert s.count(a)>=1,(p,a); wr(p,s.replace(a,b))
g='src/toolfold_guest/'
# names
s=rd(g+'reserved.py')
s+='''
_TYPING: Final = frozenset(
    {"Any", "Callable", "Dict", "FrozenSet", "Generator", "Iterable", "Iterator", "List", "Literal", "Mapping",
     "NamedTuple", "Optional", "Sequence", "Set", "Tuple", "TypedDict", "Union"}
)  # fmt: skip
NOTEBOOK_NAMES: Final = _TYPING | {"describe_files", "display", "final_answer"}
"""Names that programs use as if an earlier cell had imported them."""
NOTEBOOK_MODULES: Final = frozenset({"IPython", "nest_asyncio"})
"""Modules that programs can import although they are not installed."""

DATA_LIBRARIES: Final = (
    "numpy", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.font_manager", "matplotlib.backends.backend_agg",
)  # fmt: skip
SCIENCE_LIBRARIES: Final = ("scipy", "scipy.stats", "scipy.optimize", "sklearn", "sklearn.linear_model")
"""A set of their own: twice the memory of `data`, and few programs need them."""
'''
wr(g+'reserved.py',s)
s=rd(g+'notebook.py')
a=s.index('_TYPING = frozenset('); b=s.index('_shown: list[Media]')
s=s[:a]+s[b:]
s=s.replace('"""One of `READY`."""','"""One of `NOTEBOOK_NAMES`."""')
open(g+'notebook.py','w').write(s)
print([l for l in s.split('\n') if 'READY' in l or re.search(r'\bMODULES\b',l)])
s=rd(g+'preload.py')
a=s.index('DATA = ('); b=s.index('\n\ndef preload_stdlib')
s=s[:a].rstrip('\n')+'\n'+s[b:]
s=s.replace('(*DATA, *SCIENCE) if with_science else DATA','(*DATA_LIBRARIES, *SCIENCE_LIBRARIES) if with_science else DATA_LIBRARIES')
s=s.replace('from collections.abc import Iterable\n','from collections.abc import Iterable\n\nfrom toolfold_guest.shared.names import DATA_LIBRARIES, SCIENCE_LIBRARIES\n')
wr(g+'preload.py',s)
sub('src/toolfold/engines/single.py','from toolfold_guest.preload import DATA, SCIENCE','from toolfold_guest.shared.names import DATA_LIBRARIES, SCIENCE_LIBRARIES')
sub('src/toolfold/engines/single.py','(*DATA, *SCIENCE)','(*DATA_LIBRARIES, *SCIENCE_LIBRARIES)')
sub('src/toolfold/program/rules/imports.py','from toolfold_guest.stdlib.notebook import MODULES as NOTEBOOK_MODULES\n','')
sub('src/toolfold/program/rules/imports.py','from toolfold_guest.shared.names import LIBRARIES, WORKERS, library_of\n','from toolfold_guest.shared.names import LIBRARIES, WORKERS, library_of\nfrom toolfold_guest.shared.names import NOTEBOOK_MODULES\n')
sub('src/toolfold/program/known_names.py','from toolfold_guest.stdlib.notebook import READY as NOTEBOOK_NAMES\n','from toolfold_guest.shared.names import NOTEBOOK_NAMES\n')
# calls
n=rd(g+'namespace.py'); st=rd(g+'styles.py')
a=n.index('class ToolFacts(NamedTuple):'); b=n.index('class Namespace:')
facts=n[a:b]; n=n[:a]+n[b:]
a=n.index('def bind(facts: ToolFacts'); b=n.index('def _dressed(')
binding=n[a:b]; n=n[:a]+n[b:]
n=n.replace('from toolfold_guest.shared.call_style import Style','from toolfold_guest.shared.call_style import KEYWORDS, Style, ToolFacts, bind').replace('_KEYWORDS = frozenset(keyword.kwlist)\n','').replace('_KEYWORDS','KEYWORDS').replace('import keyword\n','').replace('from typing import Any, NamedTuple','from typing import Any')
if 're.' not in n.replace('sys.re','').replace('core.',''): pass
wr(g+'namespace.py',n)
h=rd(g+'hints.py')
a=h.index('SEVERAL = 3'); b=h.index('def hints_of')
consts=h[a:b].rstrip('\n'); h=h[:a]+h[b:]
a=h.index('def parallel_hints'); b=h.index('def _never_made')
par=h[a:b]; h=h[:a]+h[b:]
h=h.replace('from collections.abc import Mapping\n','').replace('from toolfold_guest.calls.channel import Habits\n','from toolfold_guest.calls.channel import Habits\nfrom toolfold_guest.shared.call_style import MOST_NOTES, parallel_hints\n')
wr(g+'hints.py',h)
st=st.replace('import re\nfrom collections.abc import Iterable\nfrom typing import Final, Literal\n','import keyword\nimport re\nfrom collections.abc import Iterable, Mapping\nfrom typing import Any, Final, Literal, NamedTuple\n')
st=st.rstrip('\n')+'\n\n\n'+facts.rstrip('\n')+'\n\n\n'+binding.replace('_KEYWORDS','KEYWORDS').rstrip('\n')+'\n\n\nKEYWORDS: Final = frozenset(keyword.kwlist)\n\n'+consts.replace('\n\n\n','\n').replace('SEVERAL = 3','SEVERAL: Final = 3').replace('MOST_NOTES = 3','MOST_NOTES: Final = 3')+'\n\n\n'+par.rstrip('\n')+'\n'
wr(g+'styles.py',st)
sub(g+'loop.py','from toolfold_guest.program.namespace import Namespace, ToolFacts, lenient_loads, preset','from toolfold_guest.program.namespace import Namespace, lenient_loads, preset')
s=rd(g+'loop.py')
print([l for l in s.split('\n') if 'toolfold_guest.shared.call_style' in l])
sub('src/toolfold/engines/monty/calls.py','from toolfold_guest.program.namespace import ToolFacts, bind\n','')
sub('src/toolfold/engines/monty/calls.py','from toolfold_guest.shared.call_style import style_of','from toolfold_guest.shared.call_style import ToolFacts, bind, style_of')
sub('src/toolfold/engines/monty/driver.py','from toolfold_guest.program.termination import MOST_NOTES, parallel_hints','from toolfold_guest.shared.call_style import MOST_NOTES, parallel_hints')
sub(g+'loop.py','from toolfold_guest.shared.call_style import style_of','from toolfold_guest.shared.call_style import ToolFacts, style_of')
sub(g+'loop.py','notebook.READY','NOTEBOOK_NAMES')
s=rd(g+'loop.py')
if 'from toolfold_guest.shared.names import' in s: s=s.replace('from toolfold_guest.shared.names import ','from toolfold_guest.shared.names import NOTEBOOK_NAMES, ')
else: s=s.replace('from toolfold_guest.shared.call_style import','from toolfold_guest.shared.names import NOTEBOOK_NAMES\nfrom toolfold_guest.shared.call_style import')
wr(g+'loop.py',s)
