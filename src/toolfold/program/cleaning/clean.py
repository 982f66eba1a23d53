"""A text that Python refuses, read as it was meant: without its wrapper, with plain characters.

A text that Python takes is never touched. One that it refuses is cleaned step by step until it
parses; if it never does, it stays as it was sent, and so does what Python says against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from toolfold.program.cleaning.characters import plain_characters, with_line_ends, without_entities
from toolfold.program.cleaning.json_object import Cleaned
from toolfold.program.cleaning.wrappers import STEPS, Refused

_CHARACTERS: Final = (plain_characters, without_entities, with_line_ends)


def clean(text: str, is_program: Callable[[str], bool]) -> Cleaned | Refused | None:
    """The program in a text that is none; `Refused` if it is not certain which part is; `None` if none is found.

    One that was found may have mistakes of its own: then it is given as it stands inside its wrapper.
    """
    found = _plain(text, is_program)
    if found is not None:
        return found
    notes: list[str] = []
    packages: tuple[tuple[str, int], ...] = ()
    for step in STEPS:
        stripped = step(text)
        if isinstance(stripped, Refused):
            return stripped
        if stripped is None:
            continue
        text = stripped.text
        notes.append(stripped.note)
        packages += stripped.packages
        if is_program(text):
            return Cleaned(text, tuple(notes), packages)
    if not notes:
        return None
    found = _plain(text, is_program)
    return Cleaned(found.text, (*notes, *found.notes), packages) if found else Cleaned(text, tuple(notes), packages)


def _plain(text: str, is_program: Callable[[str], bool]) -> Cleaned | None:
    """With plain characters, one kind after another, as far as it takes."""
    notes: tuple[str, ...] = ()
    for step in _CHARACTERS:
        cleaned, said = step(text)
        if cleaned == text:
            continue
        text, notes = cleaned, notes + said
        if is_program(text):
            return Cleaned(text, notes)
    return None
