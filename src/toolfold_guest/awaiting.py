"""Where a program awaits a call, and the names of the module `tools` in it: read once for every engine and the check.

Pure: nodes of a tree in, nodes of it out. `tools.x(...)` is a synchronous call, so that `tools.x(...)["id"]` works.
Models also write `await tools.x(...)` and `gather(tools.x(...), ...)`; there the awaitable `tools.async_x` is meant,
and whoever runs the program rewrites it, in the tree (`rewrite`) or in the text (the Monty engine).
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Final

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
    """`a` of `a.b.c`."""
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
