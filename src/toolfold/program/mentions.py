"""Which tools a program names, where nobody has said which tools there are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from toolfold.models import Limits, Problem
from toolfold.program.parse import parse
from toolfold.program.reader import Reader
from toolfold.program.ready_names import GUEST_NAMES, READY_NAMES
from toolfold_guest.awaiting import ASYNC_PREFIX, awaited_values

_LIMITS: Final = Limits()


def mentioned(text: str, limits: Limits = _LIMITS) -> set[str]:
    """Names that a program takes from `tools`, or awaits without binding them.

    A program that reads an attribute of `tools` by a computed name may mean any identifier that
    stands in it as a string: Monty needs every name before it starts.
    """
    tree = parse(text, limits)
    if isinstance(tree, Problem):
        return set()  # the check says so to the model
    nodes = list(ast.walk(tree))
    modules = {"tools"} | {
        alias.asname
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "tools" and alias.asname
    }
    names = {name.removeprefix(ASYNC_PREFIX) for node in nodes for name in _taken_from(node, modules)}
    if any(_is_computed(node, modules) for node in nodes):
        names |= {str(node.value) for node in nodes if isinstance(node, ast.Constant) and _is_name(node.value)}
    names |= _awaited(tree, nodes)
    return {name for name in names if not name.startswith("__")} - GUEST_NAMES


def _taken_from(node: ast.AST, modules: set[str]) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
            yield name
        case ast.ImportFrom(module="tools", level=0, names=aliases):
            yield from (alias.name for alias in aliases if alias.name != "*")
        case ast.Call(
            func=ast.Name(id="getattr" | "hasattr"), args=[ast.Name(id=module), ast.Constant(value=name), *_]
        ):
            if module in modules and _is_name(name):
                yield str(name)


def _is_computed(node: ast.AST, modules: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=module), name, *_]):
            return module in modules and not isinstance(name, ast.Constant)
    return False


# object: whatever stands in a program as a constant.
def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _awaited(tree: ast.Module, nodes: list[ast.AST]) -> set[str]:
    """Bare names called under `await` or given to `gather` and its like, which the program never binds."""
    reader = Reader(tree)
    awaited = set(awaited_values(nodes))
    return {
        use.node.func.id
        for use in reader.calls
        if use.node in awaited
        and isinstance(use.node.func, ast.Name)
        and use.node.func.id not in READY_NAMES
        and use.scope.find(use.node.func.id) is None
    }
