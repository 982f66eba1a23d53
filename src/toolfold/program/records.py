"""`TypedDict`s as Python source."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Final, NamedTuple

TYPING_NAMES: Final = ("Any", "Literal", "Never", "NotRequired", "TypedDict")
"""What type expressions may need from `typing`."""

TYPE_NAMES: Final = frozenset({"str", "bytes", "int", "float", "bool", "list", "dict", "tuple", *TYPING_NAMES})
"""Names that expressions are made of; nothing else may be called so where they are read."""


class Field(NamedTuple):
    """One key of a record."""

    key: str
    type: str
    is_required: bool
    note: str = ""


def record_source(name: str, fields: Sequence[Field], note: str = "") -> str:
    """A class if every key can be a field of one, else the call that takes any key."""
    if all(_can_be_a_field(field.key) for field in fields):
        lines = [f"    {field.key}: {_type(field)}{_comment(field.note)}" for field in fields]
        return "\n".join([f"class {name}(TypedDict):{_comment(note)}", *lines])
    lines = [f"    {field.key!r}: {_type(field)!r},{_comment(field.note)}" for field in fields]
    return "\n".join([f'{name} = TypedDict("{name}", {{{_comment(note)}', *lines, "})"])


def _can_be_a_field(key: str) -> bool:
    # A class mangles `__x`; a field named like a type, ours are capitalised, hides it from the next.
    is_name = key.isascii() and key.isidentifier() and not keyword.iskeyword(key)
    return is_name and not key.startswith("__") and key not in TYPE_NAMES and not key[0].isupper()


def _type(field: Field) -> str:
    return field.type if field.is_required else f"NotRequired[{field.type}]"


def _comment(note: str) -> str:
    # A checker would read a comment that starts with `type:` as an annotation.
    return f"  # {'- ' if note.startswith('type:') else ''}{note}" if note else ""
