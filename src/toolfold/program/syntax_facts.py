"""Facts about a program's names, scopes and values, collected by one walk over its tree. Judges nothing."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from enum import Enum
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

# ----------------------------------------------------------------------------------------------------
# Which names a program binds, and where: Python's scopes without their values.

OPAQUE: Final = ""
"""The meaning of a name that anything may have been bound to."""


class Kind(Enum):
    """Kind of block that opens a scope."""

    MODULE = "module"
    FUNCTION = "function"
    CLASS = "class"
    COMPREHENSION = "comprehension"


class Scope:
    """The names bound in one block of a program.

    A name means `OPAQUE`, or what it was imported as: `json`, `tools.hr` for a module,
    `tools.hr:price` for a member. Two different meanings make it opaque.
    """

    def __init__(
        self, kind: Kind, parent: Scope | None = None, can_await: bool = False, node: ast.AST | None = None
    ) -> None:
        self.kind, self.parent, self.can_await = kind, parent, can_await
        self.node = node
        """The function or class that opens it."""
        self.yields = False
        self.returns = False
        """Whether a `return` in it has a value."""
        self.root: Scope = self if parent is None else parent.root
        self.scopes: list[Scope] = [] if parent is None else parent.scopes
        """All of the program, whichever of them is asked."""
        self.scopes.append(self)
        self.bound: dict[str, str] = {}
        self.rebound: set[str] = set()
        self.first: dict[str, int] = {}
        """The first line that binds each name; 0 for a parameter."""
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.values: dict[str, ast.expr] = {}
        """Value of each name by a plain assignment; it may have others, see `rebound`."""
        self.declarations: dict[str, bool] = {}
        """Names declared `global` (true) or `nonlocal` (false)."""

    def bind(self, name: str, meaning: str = OPAQUE, line: int | None = 0) -> None:
        """Note that a statement gives `name` a value; without a line, one that needs an earlier value itself."""
        if line is not None and (name not in self.first or line < self.first[name]):
            self.first[name] = line
        if name in self.bound:
            self.rebound.add(name)
            if self.bound[name] != meaning:
                meaning = OPAQUE
        self.bound[name] = meaning

    def find(self, name: str) -> Scope | None:
        """The scope that a use of `name` in this one reads from; `None` if the program never binds it."""
        scope: Scope | None = self
        while scope is not None:
            if scope.declarations.get(name):
                return self.root if name in self.root.bound else None
            # A class body sees its own names; what is nested in it does not.
            if name in scope.bound and (scope.kind is not Kind.CLASS or scope is self):
                return scope
            scope = scope.parent
        return None

    def settle_declared(self) -> None:
        """Carry bindings of `global` and `nonlocal` names to where they belong."""
        for name, is_global in self.declarations.items():
            if name not in self.bound:
                continue
            owner = self.root if is_global else self.parent
            while owner is not None and owner is not self.root and name not in owner.bound:
                owner = owner.parent
            if owner is not None:
                owner.bind(name)
                owner.rebound.add(name)


Guard: TypeAlias = int
UNGUARDED: Final = 0
CATCHES_NAMES: Final = 1
"""Inside a `try` whose handlers may catch a `NameError` and go on; the others are for other exceptions."""
CATCHES_ATTRIBUTES: Final = 2
CATCHES_TYPES: Final = 4
CATCHES_KEYS: Final = 8
CATCHES_IMPORTS: Final = 16
CATCHES_TOOLS: Final = 32
CATCHES_REST: Final = 64
GUARDED: Final = 127
"""All of them."""
MAYBE: Final = 128
"""May well never run: a handler, an annotation that nobody evaluates, a branch for another version of Python."""
SPEAKS_OF_NAMES: Final = 512
"""A handler is for a `NameError` or an `AttributeError` and says so: a missing name is expected."""
WITHIN: Final = 256
"""Inside a `with`, whose manager may catch anything if it is the program's own."""
_FAMILIES: Final = (
    (CATCHES_NAMES, (NameError, UnboundLocalError)), (CATCHES_ATTRIBUTES, (AttributeError,)),
    (CATCHES_TYPES, (TypeError,)), (CATCHES_KEYS, (KeyError, IndexError)),
    (CATCHES_IMPORTS, (ImportError, ModuleNotFoundError)),
)  # fmt: skip
_CAUGHT: Final[dict[str, Guard]] = {
    "ToolError": CATCHES_TOOLS,
    "JSONDecodeError": CATCHES_REST,
    "CancelledError": CATCHES_REST,
    **{
        name: sum(bit for bit, errors in _FAMILIES if any(issubclass(error, kind) for error in errors)) or CATCHES_REST
        for name, kind in vars(builtins).items()
        if isinstance(kind, type) and issubclass(kind, BaseException)
    },
    "Exception": GUARDED,
    "BaseException": GUARDED,
    "ExceptionGroup": GUARDED,
    "BaseExceptionGroup": GUARDED,
}
"""What a handler for each exception catches, by its name; one of another name may catch anything."""


_NAME_ERRORS: Final = frozenset({"NameError", "AttributeError"})


def caught_by(kinds: Iterable[ast.expr | None]) -> Guard:
    """Guard of the handlers for some exceptions."""
    guard = UNGUARDED
    for kind in kinds:
        parts = kind.elts if isinstance(kind, ast.Tuple) else [kind]
        for part in parts:
            name = "" if part is None else last_name(part)
            guard |= _CAUGHT.get(name, GUARDED) | (SPEAKS_OF_NAMES if name in _NAME_ERRORS else UNGUARDED)
    return guard


class NodeUse(NamedTuple):
    """A node, and the scope and the `try` it stands in."""

    node: Any
    scope: Scope
    guard: Guard


position_of: Final[Callable[[NodeUse], tuple[int, int]]] = attrgetter("node.lineno", "node.col_offset")


class NameFacts:
    """Names that are defined, imported and read."""

    def __init__(self) -> None:
        self.loads: dict[str, list[NodeUse]] = {}
        self.functions: set[str] = set()
        self.coroutines: set[str] = set()
        """Names of all functions defined with `async`."""
        self.attributes: dict[str, list[NodeUse]] = {}
        self.set_attributes: set[str] = set()
        """Every attribute that is given a value."""
        self.attribute_uses: list[NodeUse] = []
        self.modules: set[str] = set()
        """First parts of imported modules."""
        self.is_dynamic = False
        """Names may be bound in ways that cannot be seen here."""
        self.mentions_files = False
        """A text in it names a file of Python, which it may write and import."""


class ValueFacts:
    """Uses of values."""

    def __init__(self) -> None:
        self.awaited: set[ast.expr] = set()
        self.subtractions: list[NodeUse] = []
        self.async_uses: list[tuple[NodeUse, str]] = []
        """Values of `async for` and `async with`, with the second word."""
        self.handled: list[NodeUse] = []
        """Types of exception handlers."""
        self.braces: list[NodeUse] = []
        """Texts with a brace that are neither f-strings nor docstrings."""


class ShapeFacts:
    """Facts that decide whether CPython can compile the tree at a known cost."""

    def __init__(self) -> None:
        self.kinds: set[type[ast.AST]] = set()
        self.top_level_returns: list[ast.Return] = []
        self.tries_with_finally: list[ast.Try] = []
        self.long_tries: list[ast.Try] = []
        """Those with several handlers."""
        self.raises: list[NodeUse] = []
        self.is_odd = False
        """Whether a function, a class or a handler may be one that CPython does not compile."""
        self.captures = 0
        self.most_loops = 0


# ----------------------------------------------------------------------------------------------------
# The state of one walk over a program's tree: what was found, and what is still to be visited.
#
# The walk keeps its own stack: a tree may be deeper than Python's.

_EMPTY_NODES: Final = frozenset({"ctx", "op", "ops"})


class Walk:
    """Handed to every handler, which adds to the facts and pushes the children that are to be visited."""

    def __init__(self, tree: ast.Module) -> None:
        self.root = Scope(Kind.MODULE, can_await=True)
        self.calls: list[NodeUse] = []
        self.imports: list[NodeUse] = []
        self.names = NameFacts()
        self.values = ValueFacts()
        self.shape = ShapeFacts()
        self.declaring: list[Scope] = []
        """Scopes with `global` or `nonlocal`, whose names are settled when all bindings are known."""
        self.annotation = MAYBE if _postpones_annotations(tree) else UNGUARDED
        self.stack: list[tuple[ast.AST, Scope, Guard]] = [(node, self.root, UNGUARDED) for node in tree.body]

    def push(self, nodes: Iterable[ast.AST | None], scope: Scope, guard: Guard) -> None:
        self.stack.extend([(node, scope, guard) for node in nodes if node is not None])

    def children(self, node: ast.AST, scope: Scope, guard: Guard) -> None:
        push = self.stack.append
        for name in fields_of(node.__class__):
            value = getattr(node, name, None)
            if value.__class__ is list:
                for item in value:
                    if isinstance(item, ast.AST):
                        push((item, scope, guard))
            elif isinstance(value, ast.AST):
                push((value, scope, guard))


# Any: the handlers in a table take the node type that they are listed under.
Handler: TypeAlias = Callable[[Walk, Any, Scope, Guard], None]

_FIELDS: Final[dict[type[ast.AST], tuple[str, ...]]] = {}


def fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """Fields of a kind of node that may hold nodes with something in them."""
    fields = _FIELDS.get(kind)
    if fields is None:
        fields = _FIELDS[kind] = tuple(field for field in kind._fields if field not in _EMPTY_NODES)
    return fields


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def is_generator(function: Function) -> bool:
    """Whether it yields, or a function within it does."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


def last_name(node: ast.AST) -> str:
    """`c` of `a.b.c` and of `c`; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _postpones_annotations(tree: ast.Module) -> bool:
    for node in tree.body[:3]:  # after a docstring, and among others from there
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            return any(alias.name == "annotations" for alias in node.names)
    return False


# ----------------------------------------------------------------------------------------------------
# Names and imports: what a program binds, reads, and may bind unseen.

_DYNAMIC_NAMES: Final = frozenset(
    {"FunctionType", "__builtins__", "__import__", "eval", "exec", "global_enum", "globals", "locals", "setattr",
     "vars"}
)  # fmt: skip
_SYMPY_BINDERS: Final = frozenset({"var", "vring", "vfield", "vfree_group", "init_session"})
"""Functions that bind names for their caller: `var('x')`, then `x`."""
_DYNAMIC_MODULES: Final = frozenset({"__main__", "builtins", "importlib"})


def settle(walk: Walk) -> None:
    """Derive the facts that need the whole tree."""
    for scope in walk.declaring:
        scope.settle_declared()
    names = walk.names
    if "sympy" in names.modules and not (
        _SYMPY_BINDERS.isdisjoint(names.loads) and _SYMPY_BINDERS.isdisjoint(names.attributes)
    ):
        names.is_dynamic = True
    if "__prepare__" in names.functions:
        names.is_dynamic = True  # the names of a class are not those of the text


def _name(walk: Walk, node: ast.Name, scope: Scope, guard: Guard) -> None:
    name = node.id
    if node.ctx.__class__ is not ast.Load:
        scope.bind(name, OPAQUE, node.lineno)
        return
    if name in _DYNAMIC_NAMES:
        walk.names.is_dynamic = True
    uses = walk.names.loads.get(name)
    if uses is None:
        walk.names.loads[name] = [NodeUse(node, scope, guard)]
    else:
        uses.append(NodeUse(node, scope, guard))


def _walrus(walk: Walk, node: ast.NamedExpr, scope: Scope, guard: Guard) -> None:
    owner = scope
    while owner.kind is Kind.COMPREHENSION and owner.parent is not None:
        owner = owner.parent
    owner.bind(node.target.id, OPAQUE, node.lineno)
    walk.stack.append((node.value, scope, guard))


def _declared(walk: Walk, node: ast.Global | ast.Nonlocal, scope: Scope, _guard: Guard) -> None:
    if scope.kind is not Kind.MODULE:
        scope.declarations.update(dict.fromkeys(node.names, isinstance(node, ast.Global)))
        walk.declaring.append(scope)


def _import(walk: Walk, node: ast.Import, scope: Scope, guard: Guard) -> None:
    walk.imports.append(NodeUse(node, scope, guard))
    for alias in node.names:
        first = alias.name.split(".", 1)[0]
        _imported(walk, first)
        if alias.asname:
            scope.bind(alias.asname, alias.name, node.lineno)
        else:
            scope.bind(first, first, node.lineno)


def _import_from(walk: Walk, node: ast.ImportFrom, scope: Scope, guard: Guard) -> None:
    walk.imports.append(NodeUse(node, scope, guard))
    module = "" if node.level else node.module or ""
    _imported(walk, module.split(".", 1)[0])
    for alias in node.names:
        if alias.name != "*":
            meaning = f"{module}:{alias.name}" if module else OPAQUE
            scope.bind(alias.asname or alias.name, meaning, node.lineno)
        elif module.split(".", 1)[0] != "tools":
            walk.names.is_dynamic = True


def _constant(walk: Walk, node: ast.Constant, scope: Scope, guard: Guard) -> None:
    value = node.value
    if value.__class__ is str:
        if "{" in value:
            walk.values.braces.append(NodeUse(node, scope, guard))
        if ".py" in value:
            walk.names.mentions_files = True


def _imported(walk: Walk, module: str) -> None:
    walk.names.modules.add(module)
    if module in _DYNAMIC_MODULES:
        walk.names.is_dynamic = True


NAME_HANDLERS: Final[dict[type[ast.AST], Handler]] = {
    ast.Name: _name, ast.NamedExpr: _walrus, ast.Global: _declared, ast.Nonlocal: _declared, ast.Import: _import,
    ast.ImportFrom: _import_from, ast.Constant: _constant,
}  # fmt: skip
