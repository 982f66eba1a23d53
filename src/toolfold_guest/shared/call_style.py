"""Call style of a program: whether it awaits every tool call, none, or some, and where.

The answer decides what the bare name of a tool is. Pure text and trees in, words out; the Monty engine asks, too.
"""

import ast
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
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
_LOOKS_UP: Final = re.compile(r"\b(?:globals|locals|vars|eval)\s*\(|\bmodules\s*\[")
_HANDS_TOOLS_ON: Final = re.compile(r"""(?<![\w."'])tools\b(?!["']|(?:\s*\.\s*\w+)+\s*\()""")
"""The module `tools` other than in `tools.name(...)`."""
_RUNNING: Final = (*_AWAITING, "run(", "def ")
_ASYNC_FUNCTIONS: Final = re.compile(r"\basync\s+def\s+(\w+)")
_LONGEST: Final = max(map(len, _AWAITING))
_QUOTES: Final = ("'", '"')


def style_of(text: str, names: Iterable[str]) -> Style:
    is_plain = "tools" not in text or ("import" not in text and not _HANDS_TOOLS_ON.search(text))
    if is_plain and all(_is_always_awaited(text, name) for name in names) and not _LOOKS_UP.search(text):
        return "awaited"
    return "mixed" if _may_await(text) else "in_place"


def leaves_coroutines(text: str) -> bool:
    """Whether a function of the program may be called without `await`."""
    return not all(_is_always_awaited(text, name, _RUNNING) for name in _ASYNC_FUNCTIONS.findall(text))


def _is_always_awaited(text: str, name: str, awaiting: tuple[str, ...] = _AWAITING) -> bool:
    size, at = len(name), text.find(name)
    while at >= 0:
        end = at + size
        before, after = text[at - 1 : at], text[end : end + 1]
        is_name = not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
        # In quotes, an attribute of something, or the name of an argument: not the tool.
        is_other = before == "." or (before in _QUOTES and after in _QUOTES) or (after == "=" and text[end + 1] != "=")
        if is_name and not is_other and not (after == "(" and text[max(0, at - _LONGEST) : at].endswith(awaiting)):
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
    is_program: bool = False
    """Its replies are texts of saved programs, which run in the guest."""


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
MOST_UNMADE: Final = 8
"""Lines with calls that were not made, in an outcome."""
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


def describe_calls(calls: Iterable[tuple[str, int]]) -> list[str]:
    """Calls by name and line, for a reader, in the order of the lines."""
    # Not a `Counter`: that asks `collections.abc`, whose builtins are the program's.
    counts: dict[tuple[str, int], int] = {}
    for call in calls:
        counts[call] = counts.get(call, 0) + 1
    return [
        f"{name}(...)" + (f" at line {line}" if line else "") + (f" ({count} times)" if count > 1 else "")
        for (name, line), count in sorted(counts.items(), key=lambda entry: entry[0][1])
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
