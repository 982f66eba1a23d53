"""A program inside a JSON object, which is a valid and idle program itself: the call that a model wrote as text."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

_PROGRAM_KEYS: Final = ("code", "program", "python", "python_code", "script")
_BESIDE: Final = frozenset(
    {"language", "lang", "description", "explanation", "reasoning", "thought", "thoughts", "timeout", "session_id"}
)
_CALL_KEYS: Final = ("arguments", "input", "parameters", "args")
_BESIDE_A_CALL: Final = frozenset({"name", "tool", "tool_name", "function", "action", "type", "id", "thought"})


class Cleaned(NamedTuple):
    """A program that was found in a text."""

    text: str
    notes: tuple[str, ...]
    """What was left out or read otherwise, for the hints of its outcome."""
    packages: tuple[tuple[str, int], ...] = ()
    """What it wants to have installed, and the line that says so."""


def unwrap_json(text: str) -> Cleaned | None:
    """The program of a text that is only a JSON object with a program and what usually stands beside one."""
    if text.lstrip()[:1] != "{" or text.rstrip()[-1:] != "}":
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _program(_arguments(found))


def _program(found: dict[str, Any]) -> Cleaned | None:
    for key in _PROGRAM_KEYS:
        program = found.get(key)
        if isinstance(program, str) and found.keys() <= {key, *_BESIDE} and (key == "code" or _is_long(program)):
            return Cleaned(program, (f"took the program from {key!r} of a JSON object",))
    return None


def _is_long(program: str) -> bool:
    """Whether a text can be a program: `{"program": "TV"}` is a value."""
    return "(" in program or "\n" in program


def _arguments(found: dict[str, Any]) -> dict[str, Any]:
    """Those of a call, which may be text themselves; else the object as it is."""
    for key in _CALL_KEYS:
        inner = found.get(key)
        if inner is not None and found.keys() <= {key, *_BESIDE_A_CALL}:
            try:
                inner = json.loads(inner) if isinstance(inner, str) else inner
            except (ValueError, RecursionError):
                return found
            return inner if isinstance(inner, dict) else found
    return found
