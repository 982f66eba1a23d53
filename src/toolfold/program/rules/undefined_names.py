"""Names that a program uses and never binds, or binds only later.

Only where it is certain, or as good as that: code that runs when the program does. A function that
nobody mentions, the body of a `try` with handlers, a handler and a branch for other versions of
Python are left alone, for their mistakes may never show.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
from collections.abc import Container, Iterator
from itertools import pairwise
from typing import Final

from toolfold.program.known_names import PRESET_NAMES, READY_NAMES, ToolIndex
from toolfold.program.reader import ProgramReader
from toolfold.program.reader_facts import Kind, NodeUse, Scope, position_of
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.own_functions import Function, is_generator

_IMPLICIT: Final = frozenset({"__class__", "__qualname__", "__module__", "__path__", "_", "reveal_type"})
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_NEVER: Final = sys.maxsize
"""The line that binds a name which is only ever added to."""
_CALLED_FOR_CERTAIN: Final = frozenset({"__init__", "__new__", "__post_init__", "__enter__", "__aenter__"})
"""Methods that run wherever their class is used; `__str__` and its like may never be called."""
_FEW: Final = 20
"""Names judged for each program; the first fault is the one that is told."""


class Bindings:
    """Judges the uses of names of one program.

    With `is_strict`, code that a guard before it may leave out (`if len(argv) < 2: return`) is not taken to run.
    """

    def __init__(
        self, tree: ast.Module, reader: ProgramReader, index: ToolIndex, known_names: Container[str], *,
        is_strict: bool = False,
    ) -> None:  # fmt: skip
        self._tree = tree
        self._reader = reader
        self._index = index
        self._known_names = known_names
        self._is_strict = is_strict
        self._living: dict[ast.AST, bool] = {}
        self._method_reads: dict[str, bool] = {}

    def faults(self) -> Iterator[Fault]:
        """The first in the text."""
        entries = sorted((*self._unbound(), *self._early()), key=lambda entry: position_of(entry[0]))
        for use, bound_at in entries[:_FEW]:
            if self.runs(use) and not self._may_be_passed(use):
                yield Fault("name", self._message(use, bound_at), use.node)
                return

    def runs(self, use: NodeUse) -> bool:
        """Whether the code that a use stands in is run when the program is, as far as anyone can see."""
        if use.guard or not self._is_alive(use.scope):
            return False
        return not self._is_strict or not self._may_be_passed(use)

    def comes_to(self, use: NodeUse) -> bool:
        """Whether every run of the program comes to a use; asked of few programs, so nothing is kept for it."""
        return Bindings(self._tree, self._reader, self._index, self._known_names, is_strict=True).runs(use)

    def _unbound(self) -> Iterator[tuple[NodeUse, int]]:
        loads, bound = self._reader.names.loads, self._reader.root.bound
        # One by one, from a set: a difference of views, or of several at once, goes through all of the other side.
        strange = set(loads).difference(READY_NAMES).difference(bound).difference(self._index.names)
        for name in strange - _IMPLICIT if strange else ():
            if name in self._known_names:
                continue
            uses = [use for use in loads[name] if not use.guard and use.scope.find(name) is None]
            # Programs for an older Python, too, ask for the version before they use a name of that.
            if uses and not (name in _OLD and self._stands_in_branch(uses[0].node)):
                yield min(uses, key=position_of), 0

    def _message(self, use: NodeUse, bound_at: int) -> str:
        name = use.node.id
        if bound_at == _NEVER:
            return f"{name!r} is added to before it has a value; give it one first, such as '{name} = 0'"
        if bound_at:
            return f"{name!r} is used before it has a value; line {bound_at} is the first to give it one"
        return f"{name!r} is not defined; {fix_for(name, use, self._reader, self._index)}"

    # Bound only later

    def _early(self) -> Iterator[tuple[NodeUse, int]]:
        """Uses on a line before, or in the statement of, the first binding in the same block."""
        for name, uses in self._reader.names.loads.items():
            for use in uses:
                node, scope, guard = use
                if guard or name not in scope.bound:
                    continue
                first = scope.first.get(name, _NEVER)
                if node.lineno <= first and self._is_early(name, use, first):
                    yield use, first

    def _is_early(self, name: str, use: NodeUse, first: int) -> bool:
        scope = use.scope
        if scope.kind not in (Kind.MODULE, Kind.FUNCTION) or name in scope.declarations:
            return False
        is_ready = name in READY_NAMES or name in self._known_names or name in self._index.names
        if is_ready and scope.kind is Kind.MODULE:
            return False
        if isinstance(scope.node, ast.Lambda):
            return False
        path = _path_to(use.node, scope.node.body if isinstance(scope.node, Function) else self._tree.body)
        if path is None or any(isinstance(node, ast.Lambda) or _may_bind(node, first) for node in path):
            return False
        if use.node.lineno < first:
            return True
        statement = next((node for node in reversed(path) if isinstance(node, ast.stmt)), None)
        return (
            isinstance(statement, ast.Assign)
            and any(node is use.node for node in ast.walk(statement.value))
            and any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
        )

    def _stands_in_branch(self, node: ast.AST) -> bool:
        path = _path_to(node, self._tree.body) or []
        return any(isinstance(ancestor, ast.If | ast.IfExp) for ancestor in path)

    # What runs

    def _is_alive(self, scope: Scope | None) -> bool:
        while scope is not None:
            if isinstance(scope.node, Function) and not self._is_used(scope.node, scope.parent):
                return False
            scope = scope.parent
        return True

    def _is_used(self, node: Function, owner: Scope | None) -> bool:
        is_used = self._living.get(node)
        if is_used is None:
            self._living[node] = False  # while it is looked for: a function that only calls itself is not used
            is_decorated = any(map(_is_use, node.decorator_list))
            if self._is_strict and (is_decorated or is_generator(node)):
                return False  # a decorator may never call it, and to call a generator runs nothing of it
            is_used = self._living[node] = is_decorated or (owner is not None and self._is_reached(node.name, owner))
        return is_used

    def _is_reached(self, name: str, owner: Scope) -> bool:
        while owner.kind is Kind.FUNCTION and owner.node is None and owner.parent is not None:
            owner = owner.parent  # the scope of type parameters
        if owner.kind is Kind.CLASS:
            is_called = name in _CALLED_FOR_CERTAIN or self._is_method_read(name)
            if not is_called or not isinstance(owner.node, ast.ClassDef) or owner.parent is None:
                return False
            return self._is_reached(owner.node.name, owner.parent)
        uses = [use for use in self._reader.names.loads.get(name, ()) if not use.guard]
        own_uses = (use for use in uses if use.scope.find(name) is owner)
        return any(self._is_alive(use.scope) and not self._may_be_passed(use) for use in own_uses)

    def _is_method_read(self, method: str) -> bool:
        """Whether living code that every call comes to reads an attribute of that name."""
        if method not in self._reader.names.attributes or method.startswith("__"):
            return False
        if method not in self._method_reads:
            self._method_reads[method] = False  # while it is looked for: a method that only itself asks for is not used
            uses = self._reader.names.attributes[method]
            if not self._is_ambiguous(method):
                self._method_reads[method] = len(uses) > _FEW or any(
                    self._is_alive(use.scope) and not self._may_be_passed(use) for use in uses
                )
        return self._method_reads[method]

    def _is_ambiguous(self, method: str) -> bool:
        """Whether several classes have a method of that name, so that nobody knows whose is asked for."""
        classes = (node for node in ast.walk(self._tree) if isinstance(node, ast.ClassDef))
        names = [getattr(statement, "name", "") for node in classes for statement in node.body]
        return names.count(method) > 1

    def _may_be_passed(self, use: NodeUse) -> bool:
        """Whether its function can run without coming to a use: one on a branch may be wrong for ever."""
        scope: Scope | None = use.scope
        while scope is not None and not isinstance(scope.node, Function):
            scope = scope.parent
        if scope is None and not self._is_strict:
            return False
        body = scope.node.body if scope is not None and isinstance(scope.node, Function) else self._tree.body
        steps = [*(_path_to(use.node, body) or []), use.node]
        if any(_is_branch(node, inner) for node, inner in pairwise(steps)):
            return True
        return self._is_strict and _may_be_skipped(body, steps)


def _is_use(decorator: ast.expr) -> bool:
    """Whether a decorator may call what it decorates, or keep it for others to call."""
    return not (isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod", "property"))


def _is_branch(node: ast.AST, inner: ast.AST) -> bool:
    match node:
        case ast.If() | ast.IfExp():
            return inner is not node.test and not _is_main_guard(node)
        case ast.BoolOp():
            return inner is not node.values[0]
        case ast.match_case():
            return True
    return False


def _is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(child, ast.Name) and child.id == "__name__" for child in ast.walk(node.test)
    )


def _may_be_skipped(body: list[ast.stmt], steps: list[ast.AST]) -> bool:
    """Whether a statement before one of the steps, in the same block, may end the function or the program."""
    for block in (body, *(block for node in steps for block in _blocks(node))):
        at = next((index for index, statement in enumerate(block) if any(statement is step for step in steps)), 0)
        if any(map(_may_end_early, block[:at])):
            return True
    return False


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block


def _may_end_early(statement: ast.stmt) -> bool:
    """Whether it may leave the block it stands in; not by the functions and classes in it."""
    stack: list[tuple[ast.AST, bool]] = [(statement, False)]
    while stack:
        node, in_loop = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Return() | ast.Raise():
                return True
            case ast.Break() | ast.Continue() if not in_loop:
                return True
            case ast.Call(func=ast.Name(id="exit" | "quit") | ast.Attribute(attr="exit" | "_exit")):
                return True
        in_loop = in_loop or isinstance(node, _LOOPS)
        stack.extend((child, in_loop) for child in ast.iter_child_nodes(node))
    return False


def _may_bind(node: ast.AST, first: int) -> bool:
    """Whether an earlier round of a loop may have bound it."""
    return isinstance(node, _LOOPS) and (node.end_lineno or node.lineno) >= first


def _path_to(node: ast.AST, body: list[ast.stmt]) -> list[ast.AST] | None:
    """The nodes around one, from the statement of the block inwards, without itself."""
    line = getattr(node, "lineno", 0)
    for statement in body:
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            path = _path_within(node, statement)
            if path is not None:
                return path
    return None


def _path_within(node: ast.AST, top: ast.AST) -> list[ast.AST] | None:
    stack: list[tuple[ast.AST, list[ast.AST]]] = [(top, [])]
    while stack:
        current, path = stack.pop()
        if current is node:
            return path
        stack.extend((child, [*path, current]) for child in ast.iter_child_nodes(current))
    return None


# ----------------------------------------------------------------------------------------------------
# What a name that nobody defined was probably meant to be: words for an error text.

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


def fix_for(name: str, use: NodeUse, reader: ProgramReader, index: ToolIndex) -> str:
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


def _tool_on(name: str, reader: ProgramReader, index: ToolIndex) -> str | None:
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
        matches = difflib.get_close_matches(name, list(names)[:_MOST], 1, _CLOSE)
        if matches:
            return matches[0]
    return None
