"""A text that Python refuses, read as it was meant: without its wrapper, with plain characters.

A text that Python takes is never touched. One that it refuses is cleaned step by step until it
parses; if it never does, it stays as it was sent, and so does what Python says against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from toolfold.program.cleaning.characters import plain_characters, with_line_ends, without_entities
from toolfold.program.cleaning.wrappers import STEPS, Refused

_WRAPPER_KEYS: Final = frozenset(
    {"code", "language", "lang", "description", "explanation", "reasoning", "thought", "timeout", "session_id"}
)
_CHARACTERS: Final = (plain_characters, without_entities, with_line_ends)


class Cleaned(NamedTuple):
    """A program that was found in a text."""

    text: str
    notes: tuple[str, ...]
    """What was left out or read otherwise, for the hints of its outcome."""
    packages: tuple[tuple[str, int], ...] = ()
    """What it wants to have installed, and the line that says so."""


def unwrap_json(text: str) -> Cleaned | None:
    """The program of a text that is only a JSON object with `code`, which is a valid, idle program itself."""
    if '"code"' not in text or text.lstrip()[:1] != "{" or text.rstrip()[-1:] != "}":
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found.get("code"), str) or not found.keys() <= _WRAPPER_KEYS:
        return None
    return Cleaned(found["code"], ("took the program from 'code' of a JSON object",))


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
