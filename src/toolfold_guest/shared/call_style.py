"""Call style of a program: whether it awaits every tool call, none, or some, and where.

The answer decides what the bare name of a tool is. Pure text and trees in, words out; the Monty engine asks, too.
"""

import ast
import builtins
import keyword
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

Style = Literal["awaited", "in_place", "mixed"]
"""`awaited`: every call stands under `await` or in a `gather`, so a tool is a plain coroutine function.
`in_place`: nothing in the text could await anything, so a tool is a plain function.
`mixed`: a call is made when it is awaited or when its value is used, whichever comes first."""

_CAN_AWAIT: Final = re.compile(r"await|async|corout|gather|inspect|uvloop|anyio|trio")
_CLOSES: Final = re.compile(r"(\w*)\s*\.\s*(?:close|send|throw)\s*\(")
_OPENS: Final = r"\s*=\s*[\w.]*(?:open|reader|writer|connect|cursor|IO|File|figure|mmap)\w*\s*\("
_AWAITING: Final = (
    "await ", "gather(", "gather(*[", "gather(*(", "create_task(", "ensure_future(", "wait_for(", "as_completed([",
)  # fmt: skip
_LONGEST: Final = max(map(len, _AWAITING))
_QUOTES: Final = ("'", '"')


def style_of(text: str, names: Iterable[str]) -> Style:
    if all(_is_always_awaited(text, name) for name in names) and not ("tools" in text and "import" in text):
        return "awaited"
    return "mixed" if _may_await(text) else "in_place"


def _is_always_awaited(text: str, name: str) -> bool:
    size, at = len(name), text.find(name)
    while at >= 0:
        end = at + size
        before, after = text[at - 1 : at], text[end : end + 1]
        is_name = not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
        # In quotes, an attribute of something, or the name of an argument: not the tool.
        is_other = before == "." or (before in _QUOTES and after in _QUOTES) or (after == "=" and text[end + 1] != "=")
        if is_name and not is_other and not (after == "(" and text[max(0, at - _LONGEST) : at].endswith(_AWAITING)):
            return False
        at = text.find(name, end)
    return True


def _may_await(text: str) -> bool:
    """Whether anything in it could await a call, or close one that was never made."""
    if _CAN_AWAIT.search(text):
        return True
    return any(not _is_file(text, closed) for closed in set(_CLOSES.findall(text)))


def _is_file(text: str, name: str) -> bool:
    """A name that is opened, or imported, holds no call."""
    return bool(name) and bool(re.search(rf"\b{name}{_OPENS}|\bas {name}\b|\bimport [\w, ]*\b{name}\b|^plt$", text))


class ToolFacts(NamedTuple):
    """What the host tells of a tool, in the order in which the message has it."""

    name: str
    python_name: str
    aliases: tuple[str, ...]
    domain: str
    short_name: str
    """What the domain's module calls it too; empty for nothing."""
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    takes_object: bool
    """The first parameter accepts an object, so one positional dict may be meant for it."""
    doc: str
    signature: str = ""
    """As `(*, name: type = default) -> type`; empty unless the program looks at it."""
    is_read_only: bool = False


def bind(facts: ToolFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Positional arguments in schema order, or one dict that holds them all, to named ones."""
    if len(args) == 1 and not kwargs and isinstance(args[0], dict) and _is_arguments(facts, args[0]):
        return args[0]
    if len(args) > len(facts.parameters):
        count = len(facts.parameters)
        raise TypeError(f"{facts.python_name}() takes {count} positional arguments but {len(args)} were given")
    bound = dict(zip(facts.parameters, args, strict=False))
    respelt = _respelt(facts.parameters)
    for word, value in kwargs.items():
        name = respelt.get(word, word)
        if name in bound:
            raise TypeError(f"{facts.python_name}() got multiple values for argument {word!r}")
        bound[name] = value
    return bound


def _respelt(parameters: tuple[str, ...]) -> dict[str, str]:
    """Parameters that are no identifiers, by what programs write: `user_id` for `user-id`, `from_` for `from`."""
    odd = [name for name in parameters if not name.isidentifier() or name in KEYWORDS]
    words = ((re.sub(r"\W", "_", name), name) for name in odd)
    spelt = {f"{word}_" if word in KEYWORDS else word: name for word, name in words}
    return {word: name for word, name in spelt.items() if word not in parameters}


def _is_arguments(facts: ToolFacts, value: dict[Any, Any]) -> bool:
    if not facts.takes_object:
        return True
    return value.keys() <= set(facts.parameters) and value.keys() >= set(facts.required)


KEYWORDS: Final = frozenset(keyword.kwlist)

SEVERAL: Final = 3
"""So many calls of one tool, one after another, are worth a word."""
MOST_NOTES: Final = 3
"""On a value: of a hundred rows with the same oddity, three tell enough."""


def parallel_hints(in_place: Mapping[str, int]) -> list[str]:
    """What to write instead of calls that were made one after another."""
    return [
        f"{count} calls of {name!r} ran one after another; "
        f"'await asyncio.gather(*[{name}(...) for ...])' runs independent calls at once"
        for name, count in in_place.items()
        if count >= SEVERAL
    ]


# ----------------------------------------------------------------------------------------------------
# Where a program awaits a call, and the names of the module `tools` in it: read once for every engine and the check.
#
# Pure: nodes of a tree in, nodes of it out. `tools.x(...)` is a synchronous call, so that `tools.x(...)["id"]` works.
# Models also write `await tools.x(...)` and `gather(tools.x(...), ...)`; there the awaitable `tools.async_x` is meant,
# and whoever runs the program rewrites it, in the tree (`rewrite`) or in the text (the Monty engine).

AWAITERS: Final = frozenset({"gather", "create_task", "ensure_future", "wait_for", "as_completed", "wait", "shield"})
"""Functions that await what they are given."""
ASYNC_PREFIX: Final = "async_"
"""Of the attribute of `tools` that is awaitable."""
_COMPREHENSIONS: Final = (ast.ListComp, ast.GeneratorExp, ast.SetComp)


def awaited_values(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """What stands under `await`, or is handed to a function that awaits it."""
    for node in nodes:
        if isinstance(node, ast.Await):
            yield node.value
        elif isinstance(node, ast.Call) and called_name(node) in AWAITERS:
            for argument in node.args:
                yield from _handed_over(argument)


def awaited_attributes(nodes: list[ast.AST]) -> Iterator[ast.Attribute]:
    """The `tools.x` of calls that are awaited; each has to become `tools.async_x`."""
    modules = tool_modules(nodes)
    for value in awaited_values(nodes):
        match value:
            case ast.Call(func=ast.Attribute() as attribute) if _root(attribute) in modules:
                if not attribute.attr.startswith(ASYNC_PREFIX):
                    yield attribute


def tool_modules(nodes: list[ast.AST]) -> set[str]:
    """The names under which a program has `tools`, or a part of it."""
    modules = set() if _binds_tools(nodes) else {"tools"}
    for node in nodes:
        if isinstance(node, ast.Import):
            modules.update(alias.asname for alias in node.names if alias.asname and is_tools(alias.name))
        elif isinstance(node, ast.ImportFrom) and not node.level and is_tools(node.module or ""):
            # A domain or a tool, which only the run will tell; a tool has no attributes to mistake.
            modules.update(alias.asname or alias.name for alias in node.names)
    return modules


def is_tools(module: str) -> bool:
    """Whether an import of it brings tools: `tools` itself, or `tools.<domain>`."""
    return module == "tools" or module.startswith("tools.")


def called_name(node: ast.expr) -> str:
    """`f` of `f(...)` and of `a.b.f(...)`; empty for anything else."""
    function = getattr(node, "func", None)
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _handed_over(argument: ast.expr) -> Iterator[ast.expr]:
    """`f(x)` of `f(x)`, `*[f(x) for x in xs]`, `[f(x), ...]`."""
    if isinstance(argument, ast.Starred):
        argument = argument.value
    if isinstance(argument, _COMPREHENSIONS):
        yield argument.elt
    elif isinstance(argument, ast.List | ast.Tuple | ast.Set):
        yield from argument.elts
    else:
        yield argument


def _root(attribute: ast.Attribute) -> str:
    root: Any = attribute
    while isinstance(root, ast.Attribute):
        root = root.value
    return root.id if isinstance(root, ast.Name) else ""


def _binds_tools(nodes: list[ast.AST]) -> bool:
    """A program's own variable `tools` has nothing to do with our module."""
    return any(
        (isinstance(node, ast.Name) and node.id == "tools" and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg) and node.arg == "tools")
        for node in nodes
    )


# ----------------------------------------------------------------------------------------------------
# Which tool calls of a program are made in place, because nothing there could await them.
#
# Pure: a tree in, nodes of it out. Where it is not certain, a call stays awaitable and is left to the run.
# Names are judged by their spelling, whatever their scope: one use that may await keeps all of them awaitable.

Use = Literal["value", "awaited", "escape"]

_TAKES_AWAITABLES: Final = AWAITERS | frozenset(
    {"run", "Runner", "run_until_complete", "run_coroutine_threadsafe", "start_soon", "isawaitable", "iscoroutine",
     "close", "send"}
)  # fmt: skip
_VALUE_MODULES: Final = frozenset(
    {"json", "re", "math", "statistics", "datetime", "textwrap", "pprint", "csv", "base64", "html", "string", "pd",
     "pandas", "np", "numpy", "Decimal", "Fraction", "date", "Path", "os", "sys", "hashlib", "Counter", "logging"}
)  # fmt: skip
_NOT_VALUES: Final = frozenset({"aiter", "anext", "setattr", "isinstance", "exec", "eval", "callable", "id"})
_CONSUMERS: Final = frozenset(name for name in dir(builtins) if name[0].islower()) - _NOT_VALUES
_READERS: Final = frozenset({"len", "sum", "print", "str", "repr", "max", "min", "any", "all"})
"""Builtins that look at the items of a list and hand none of them on but as a value."""
_AWAITING_ATTRIBUTES: Final = ("close", "send", "throw")
_LOOSE: Final = (
    ast.BinOp, ast.UnaryOp, ast.FormattedValue, ast.Subscript, ast.Compare, ast.Expr, ast.AugAssign, ast.For, ast.If,
    ast.While, ast.Assert, ast.comprehension, ast.Raise, ast.Match, ast.withitem,
)  # fmt: skip


class CallSites:
    """What to make in place in one program.

    Args:
        tree: The program.
        tools: The names under which it can call tools.
    """

    def __init__(self, tree: ast.Module, tools: Container[str]) -> None:
        self.calls: list[ast.Call] = []
        """Calls of tools whose value is needed at once."""
        self.values: list[ast.Name] = []
        """Names that may hold a call, where its value is needed."""
        self.dropped: list[ast.Expr] = []
        """Statements that are only an expression, whose value nobody sees."""
        self.lists: list[ast.ListComp] = []
        """List comprehensions that hold calls which nothing may ever await."""
        self.awaitable_lists: list[ast.ListComp] = []
        """List comprehensions that hold calls which something may await."""
        self._parents: dict[ast.AST, ast.AST] = {}
        self._loads: dict[str, list[ast.Name]] = {}
        self._bound: set[str] = set()
        self._read(tree)
        self._tools = self._imported_tools(tree) | {
            name for name in self._loads if name in tools and name not in self._bound
        }
        self._call_names: set[str] = set()
        for node in list(self._parents):
            self._judge(node)
        awaited = {name for name in self._call_names if self._is_awaited(name)}
        for name in self._call_names - awaited:
            self.values += [load for load in self._loads.get(name, ()) if self._use(load) == "value"]

    def _read(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            # How a value is used depends on what is around it, and nodes do not know their parents.
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    self._loads.setdefault(name, []).append(node)
                case ast.Name(id=name) | ast.arg(arg=name) | ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    self._bound.add(name)
                case ast.AsyncFunctionDef(name=name):
                    self._bound.add(name)
                # This binds the tool itself, so its name still means the tool.
                case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "tools":
                    pass
                case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                    self._bound.update((alias.asname or alias.name).partition(".")[0] for alias in aliases)

    def _imported_tools(self, tree: ast.Module) -> set[str]:
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tools":
                names.update(alias.asname or alias.name for alias in node.names)
        return names - self._bound

    def _judge(self, node: ast.AST) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.ListComp | ast.Name):
            if not self._is_builtin_call(node.value):
                self.dropped.append(node)
        elif isinstance(node, ast.Match) and isinstance(node.subject, ast.Name):
            self.values.append(node.subject)  # patterns look at the type itself
        elif isinstance(node, ast.ListComp | ast.SetComp) and self._is_tool(node.elt):
            self._judge_list(node)
        elif self._is_tool(node):
            assert isinstance(node, ast.Call)
            if self._is_in_place(node):
                self.calls.append(node)

    def _judge_list(self, node: ast.ListComp | ast.SetComp) -> None:
        name = self._assigned_name(node)
        loads = [node] if name is None else self._loads.get(name, [])
        if all(self._is_read(load) for load in loads):
            if isinstance(node, ast.ListComp):
                self.lists.append(node)
        elif isinstance(node, ast.ListComp) and self._use(node) != "awaited":
            self.awaitable_lists.append(node)

    def _is_in_place(self, call: ast.Call) -> bool:
        if self._use(call) == "value":
            return True
        name = self._assigned_name(call)
        if name is None:
            return False
        self._call_names.add(name)
        return all(self._use(load) == "value" for load in self._loads.get(name, ()))

    def _is_read(self, items: ast.AST) -> bool:
        """A list of calls, here only read: nothing of it reaches what could await it."""
        parent = self._parents[items]
        match parent:
            case ast.For(iter=iterable, target=target) | ast.comprehension(iter=iterable, target=target):
                names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
                loads = [load for name in names for load in self._loads.get(name, ())]
                return iterable is items and all(self._use(load) == "value" for load in loads)
            case ast.Subscript():
                return parent.value is items and self._use(parent) == "value"
            case ast.Starred():
                return self._is_read(parent)
            case ast.Call(func=ast.Name(id=name)):
                return name in _READERS and name not in self._bound
            case ast.Call(func=ast.Attribute()):
                return self._use(items) == "value"
        return isinstance(parent, ast.FormattedValue | ast.Expr)

    def _is_awaited(self, name: str) -> bool:
        return any(self._use(load) == "awaited" for load in self._loads.get(name, ()))

    def _assigned_name(self, node: ast.expr) -> str | None:
        """`x` of `x = node`, also where node is one branch of what is assigned."""
        parent = self._parents[node]
        while isinstance(parent, ast.IfExp | ast.BoolOp):
            parent = self._parents[parent]
        if isinstance(parent, ast.Tuple):
            return self._unpacked_name(node, parent)
        targets = parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
        is_assignment = isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr)
        if is_assignment and len(targets) == 1 and isinstance(targets[0], ast.Name):
            return targets[0].id
        return None

    def _unpacked_name(self, node: ast.expr, values: ast.Tuple) -> str | None:
        match self._parents[values]:
            case ast.Assign(targets=[ast.Tuple(elts=targets)]) if (
                len(targets) == len(values.elts) and node in values.elts
            ):
                target = targets[values.elts.index(node)]
                return target.id if isinstance(target, ast.Name) else None
        return None

    def _use(self, node: ast.AST) -> Use:
        parent = self._parents[node]
        if isinstance(parent, ast.Await):
            return "awaited"
        if isinstance(parent, _LOOSE):
            return "value"
        match parent:
            case ast.Attribute(attr=name):
                return "awaited" if name in _AWAITING_ATTRIBUTES or name.startswith(("_", "cr_")) else "value"
            case ast.BoolOp(values=values) if node is not values[-1]:
                return "value"
            case ast.IfExp(test=test) if node is test:
                return "value"
            case ast.BoolOp() | ast.IfExp() | ast.NamedExpr():
                return "escape" if isinstance(parent, ast.NamedExpr) else self._use(parent)
            case ast.Assign(targets=targets) if any(isinstance(target, ast.Tuple | ast.List) for target in targets):
                return "value"
            case ast.Dict(keys=keys) if node in keys:
                return "value"
            case ast.DictComp(key=key) if node is key:
                return "value"
            case ast.Starred():
                return "awaited" if self._use(parent) == "awaited" else "value"
            case ast.keyword():
                return self._use(parent)
            case ast.Call(func=function):
                return "value" if node is function else self._given_to(function, parent)
        return "escape"

    def _given_to(self, function: ast.expr, call: ast.Call) -> Use:
        """What a function does with an argument, as far as its name tells."""
        if isinstance(function, ast.Name):
            name = function.id
            if name in _TAKES_AWAITABLES:
                return "awaited"
            if name == "isinstance" and "wait" not in ast.dump(call) and "orout" not in ast.dump(call):
                return "value"
            is_theirs = name in self._bound and name not in _VALUE_MODULES
            return (
                "value" if (name in _CONSUMERS | _VALUE_MODULES and not is_theirs) or name in self._tools else "escape"
            )
        if isinstance(function, ast.Attribute):
            if function.attr in _TAKES_AWAITABLES:
                return "awaited"
            root: Any = function
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Constant | ast.JoinedStr) or (
                isinstance(root, ast.Name) and root.id in _VALUE_MODULES
            ):
                return "value"
        return "escape"

    def _is_tool(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._tools

    def _is_builtin_call(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _CONSUMERS
            and node.func.id not in self._bound
        )
