#!/usr/bin/env python3
"""participles.py ROOT PATH-PREFIX...: names that are a bare participle, pronoun or adverb, where each is defined, and the file's docstring if it asks."""
import ast, re, sys, runpy
from collections import Counter, defaultdict
from pathlib import Path
ROOT = Path(sys.argv[1]).resolve()
argv = sys.argv; sys.argv = ['x', str(ROOT)]
src_text = Path(__file__).with_name('rename.py').read_text().split("\ncount = 0")[0]
ns = {'__name__': 'r', '__file__': __file__}
exec(compile(src_text.replace("FILES = {p: Src(p) for p in PY if True}", "FILES = {}"), 'rename.py', 'exec'), ns)
Src, Refs, FUNC = ns['Src'], ns['Refs'], ns['FUNC']
m = Path(__file__).with_name('measures.py').read_text()
words = set(' '.join(re.findall(r'"([a-z ]+)"', m[m.index('PARTICIPLES: Final'):m.index('class ClassSize')])).split())
def bad(n): return n.strip('_').lower() in words
tot = 0; allnames = 0
attrs = Counter()
for p in sorted((ROOT / 'src').rglob('*.py')):
    r = str(p.relative_to(ROOT))
    if not any(r.startswith(x) for x in argv[2:] or ['src']): continue
    s = Src(p); refs = Refs(s)
    q = {id(n): k for k, n in refs.quals.items()}
    parent = {}
    for n in ast.walk(s.tree):
        for c in ast.iter_child_nodes(n): parent[id(c)] = n
    def qual(sc):
        while sc is not None and id(sc) not in q: sc = parent.get(id(sc))
        return q.get(id(sc), '*') if sc is not None else None
    loc = Counter(); glob = Counter(); cls = Counter()
    for name, sc, a, b, k in refs.refs:
        if bad(name):
            if sc is None: glob[name] += 1
            elif isinstance(sc, ast.ClassDef): cls[name] += 1
            else: loc[qual(sc), name] += 1
    at = Counter(n.attr for n in ast.walk(s.tree) if isinstance(n, ast.Attribute) and bad(n.attr))
    meth = Counter(n.name for c in ast.walk(s.tree) if isinstance(c, ast.ClassDef) for n in c.body if isinstance(n, FUNC) and bad(n.name))
    n = sum(loc.values()) + sum(glob.values()) + sum(at.values()) + sum(cls.values()) + sum(meth.values()); tot += n
    doc = ast.get_docstring(s.tree) or ''
    asks = re.match(r'(What|Who|How|Where|Which|Whether|When)\b', doc)
    if not n and not asks: continue
    print(f'{r}  ({n})')
    if asks: print(f'    doc: {doc.splitlines()[0]}')
    for (f, name), c in loc.items(): print(f'    local {f} {name} x{c}')
    for name, c in glob.items(): print(f'    global {name} x{c}')
    if cls or meth: print('    members:', dict(cls + meth))
    if at: print('    attr uses:', dict(at))
print('total', tot)
