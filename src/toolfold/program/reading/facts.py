"""What the walk over a program's tree finds out. Plain data; judges nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from toolfold.program.scopes import Scope

Guard: TypeAlias = int
UNGUARDED: Final = 0
GUARDED: Final = 1
"""Inside a `try` with handlers: a failing import may be expected."""
GUARDED_NAMES: Final = 2
"""Its handlers speak of names or attributes: a missing one is expected."""
MAYBE: Final = 4
"""May well never run: a handler, an annotation that nobody evaluates, a branch for another version of Python."""


class Use(NamedTuple):
    """A node, and the scope and the `try` it stands in."""

    node: Any
    scope: Scope
    guard: Guard


def place_of(use: Use) -> tuple[int, int]:
    """Where it stands in the text, to sort by."""
    return use.node.lineno, use.node.col_offset


@dataclass(slots=True)
class NameFacts:
    """What is defined, imported and read, by name."""

    loads: dict[str, list[Use]] = field(default_factory=dict)
    """Uses of each name."""
    functions: set[str] = field(default_factory=set)
    """Names of all that are defined, wherever."""
    coroutines: set[str] = field(default_factory=set)
    """Those of them that are defined with `async`."""
    attributes: set[str] = field(default_factory=set)
    """Every attribute that is read."""
    set_attributes: set[str] = field(default_factory=set)
    """Every attribute that is given a value."""
    attribute_uses: list[Use] = field(default_factory=list)
    """Attributes of plain names."""
    modules: set[str] = field(default_factory=set)
    """First parts of imported modules."""
    is_dynamic: bool = False
    """Names may be bound in ways that cannot be seen here."""
    mentions_files: bool = False
    """A text in it names a file of Python, which it may write and import."""


@dataclass(slots=True)
class ValueFacts:
    """What is done with values."""

    awaited: set[ast.expr] = field(default_factory=set)
    spoiled: set[ast.expr] = field(default_factory=set)
    """Values used as no coroutine can be: dropped, subscripted, added, looped over, ..."""
    assigned: list[tuple[ast.Call, str, Scope]] = field(default_factory=list)
    """Calls whose value goes into one name."""
    dropped: list[Use] = field(default_factory=list)
    """Calls that stand as statements of their own."""
    keys: list[Use] = field(default_factory=list)
    """Subscripts with a text."""
    subtractions: list[Use] = field(default_factory=list)


@dataclass(slots=True)
class ShapeFacts:
    """What decides whether CPython can compile the tree at a price that is known."""

    kinds: set[type[ast.AST]] = field(default_factory=set)
    """Of all nodes that were looked at."""
    top_level_returns: list[ast.Return] = field(default_factory=list)
    tries_with_finally: list[ast.Try] = field(default_factory=list)
    captures: int = 0
    most_loops: int = 0
