"""The state of one walk over a program's tree: what was found, and what is still to be visited.

The walk keeps its own stack: a tree may be deeper than Python's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from toolfold.program.reading.facts import MAYBE, UNGUARDED, Guard, NameFacts, ShapeFacts, Use, ValueFacts
from toolfold.program.scopes import Kind, Scope

_EMPTY_NODES: Final = frozenset({"ctx", "op", "ops"})


class Walk:
    """Handed to every handler, which adds to the facts and pushes the children that are to be visited."""

    def __init__(self, tree: ast.Module) -> None:
        self.root = Scope(Kind.MODULE, can_await=True)
        self.calls: list[Use] = []
        self.imports: list[Use] = []
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
        for field in fields_of(node.__class__):
            value = getattr(node, field, None)
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
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = tuple(field for field in kind._fields if field not in _EMPTY_NODES)
    return found


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
