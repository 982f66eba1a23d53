"""Types as their alternatives: united, compared with a value, written as one expression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from toolfold.models import Json
from toolfold_guest.rules import is_text

Union: TypeAlias = tuple[str, ...]
"""Each alternative is an expression; a literal is one of its own, as `Literal['a']`."""

ANY: Final[Union] = ("Any",)
NONE: Final[Union] = ("None",)
LONGEST_LITERAL: Final = 200
MOST_LITERALS: Final = 60

_LITERAL: Final = "Literal["
_ACCEPTS: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset({"str", "Any"}),
    bool: frozenset({"bool", "int", "float", "Any"}),
    int: frozenset({"int", "float", "Any"}),
    float: frozenset({"float", "Any"}),
    type(None): frozenset({"None", "Any"}),
}


def unite(*unions: Union) -> Union:
    """All alternatives once, `None` last; `Any` takes in all others, `str` the literals that are text."""
    members = dict.fromkeys(member for union in unions for member in union)
    if "Any" in members:
        return ANY
    general = members.keys() & {"str", "int", "bool"}
    kept = [one for one in members if one not in ("None", "Never") and _kind_of_literal(one) not in general]
    if "None" in members:
        kept.append("None")
    return tuple(kept) or unions[0]


def expression(union: Union) -> str:
    """As Python writes it: `int | Literal['a', 'b'] | None`."""
    literals = [one[len(_LITERAL) : -1] for one in union if one.startswith(_LITERAL)]
    written = [f"{_LITERAL}{', '.join(literals)}]" if one.startswith(_LITERAL) else one for one in union]
    return " | ".join(dict.fromkeys(written))


def accepts(union: Union, value: Json) -> bool:
    """Whether a value, written as a literal, has this type for certain."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if isinstance(value, list | dict):
        start = "list[" if isinstance(value, list) else "dict["
        return not value and (union == ANY or any(one.startswith(start) for one in union))
    return f"{_LITERAL}{value!r}]" in union or not _ACCEPTS.get(type(value), frozenset()).isdisjoint(union)


def union_of_values(values: Sequence[Json]) -> Union:
    """The type of an `enum`: literals, or the kinds of its values where there are too many."""
    as_literals = len(values) <= MOST_LITERALS
    found: Union = ()
    for value in values:
        found = unite(found, _literal(value) if as_literals else _kind(value))
    return found


def _literal(value: Json) -> Union:
    is_number = isinstance(value, int) and abs(value) < 10**18
    is_short = isinstance(value, str) and len(value) <= LONGEST_LITERAL and is_text(value)
    return (f"{_LITERAL}{value!r}]",) if is_number or is_short else _kind(value)


def _kind(value: Json) -> Union:
    match value:
        case None:
            return NONE
        case bool() | int() | float() | str():
            return (type(value).__name__,)
        case list():
            return ("list[Any]",)
        case Mapping():
            return ("dict[str, Any]",)
    return ANY


def _kind_of_literal(member: str) -> str:
    if not member.startswith(_LITERAL):
        return ""
    value = member[len(_LITERAL) : -1]
    if value in ("True", "False"):
        return "bool"
    return "str" if value[0] in "'\"" else "int"
