"""What a name that nobody defined was probably meant to be: words for an error text."""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
from typing import Final

from toolfold.program.index import ToolIndex
from toolfold.program.reader import Reader
from toolfold.program.reading.facts import Use
from toolfold.program.ready_names import PRESET_NAMES
from toolfold.program.scopes import Scope

_WRITE: Final = {
    "true": "True", "false": "False", "null": "None", "nil": "None", "undefined": "None", "none": "None",
    "TRUE": "True", "FALSE": "False", "NULL": "None", "NaN": "float('nan')", "nan": "float('nan')",
    "Infinity": "float('inf')", "inf": "float('inf')", "console": "print(...)", "System": "print(...)",
    "echo": "print(...)", "printf": "print(...)", "puts": "print(...)", "println": "print(...)",
    "JSON": "json.loads(...) or json.dumps(...)", "Math": "math", "parseInt": "int(...)", "parseFloat": "float(...)",
    "Number": "float(...)", "String": "str(...)", "Array": "list(...)", "Object": "dict(...)",
    "Promise": "asyncio.gather(...)", "this": "self", "xrange": "range(...)",
    "raw_input": "a value instead: nobody can type one here", "unicode": "str(...)", "basestring": "str",
    "long": "int(...)", "unichr": "chr(...)", "lt": "'<' instead of the HTML entity",
    "gt": "'>' instead of the HTML entity", "amp": "'&' instead of the HTML entity", "strlen": "len(...)",
    "length": "len(...)", "fetch": "a tool call instead: there is no network", "require": "import",
}  # fmt: skip
"""Names of other languages, and what Python has for them."""
_OLD: Final = frozenset(
    {
        "xrange", "raw_input", "unicode", "basestring", "long", "unichr", "reduce", "file", "cmp", "execfile", "reload",
        "buffer", "apply", "intern", "WindowsError",
    }
)  # fmt: skip
_FROM: Final = {
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple", "ChainMap"),
    "concurrent.futures": ("ThreadPoolExecutor",),
    "contextlib": ("contextmanager", "suppress", "asynccontextmanager"),
    "copy": ("deepcopy",),
    "dataclasses": ("dataclass", "field", "asdict"),
    "datetime": ("timedelta", "timezone"),
    "decimal": ("Decimal",),
    "enum": ("Enum", "IntEnum", "auto"),
    "fractions": ("Fraction",),
    "functools": ("cache", "cmp_to_key", "lru_cache", "partial", "reduce", "wraps"),
    "heapq": ("heapify", "heappop", "heappush", "nlargest", "nsmallest"),
    "io": ("BytesIO", "StringIO"),
    "itertools": (
        "accumulate", "chain", "combinations", "count", "cycle", "groupby", "islice", "permutations", "product",
        "repeat", "starmap", "takewhile", "zip_longest",
    ),
    "math": ("ceil", "floor", "gcd", "isclose", "log", "log10", "log2", "pi", "sqrt"),
    "operator": ("attrgetter", "itemgetter"),
    "pathlib": ("Path",),
    "pprint": ("pprint",),
    "random": ("choice", "randint", "shuffle", "uniform"),
    "re": ("findall",),
    "statistics": ("mean", "median", "mode", "stdev"),
    "string": ("ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits"),
    "textwrap": ("dedent",),
    "time": ("perf_counter", "sleep"),
    "typing": (
        "Any", "Awaitable", "Callable", "ClassVar", "Dict", "Generator", "Iterable", "Iterator", "List", "Literal",
        "Mapping", "NamedTuple", "Optional", "Protocol", "Sequence", "Set", "Tuple", "TypedDict", "TypeVar", "Union",
    ),
    "uuid": ("uuid4",),
}  # fmt: skip
_MODULE_OF: Final = {name: module for module, names in _FROM.items() for name in names}
_MODULES: Final = frozenset(name for name in sys.stdlib_module_names if not name.startswith("_"))
_CLOSE: Final = 0.75
_MOST: Final = 2000


def is_old(name: str) -> bool:
    """Whether an older Python had it: programs for both ask for the version before they use it."""
    return name in _OLD


def fix_for(name: str, use: Use, reader: Reader, index: ToolIndex) -> str:
    """The next step, after `'x' is not defined; `."""
    if name in _WRITE:
        return f"write {_WRITE[name]}"
    tool = _tool_on(name, reader, index)
    if tool is not None:
        return f"call the tool by its own name: {tool}(...)"
    near = _nearest(name, use.scope, index)
    if name in _MODULE_OF and near != name:
        return f"add 'from {_MODULE_OF[name]} import {name}'"
    if name in _MODULES:
        return f"add 'import {name}'"
    if near is not None:
        return f"did you mean {near!r}?"
    return "give it a value first"


def _tool_on(name: str, reader: Reader, index: ToolIndex) -> str | None:
    """The tool in `client.get_users(...)`, where there is no `client`."""
    for use in reader.calls:
        function = use.node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == name:
            tool = index.names.get(function.attr)
            if tool is not None:
                return tool.python_name
    return None


def _nearest(name: str, scope: Scope | None, index: ToolIndex) -> str | None:
    """A name that is there and is written nearly the same: of the program first, then of tools, then of Python."""
    own: list[str] = []
    while scope is not None:
        own += scope.bound
        scope = scope.parent
    for names in (own, index.names, (*PRESET_NAMES, *dir(builtins))):
        found = difflib.get_close_matches(name, list(names)[:_MOST], 1, _CLOSE)
        if found:
            return found[0]
    return None
