"""Where in a program something is: lines as Python counts them, and the excerpt with its caret."""

from __future__ import annotations

import re
from typing import Final

from toolfold.models import Problem, ProblemKind

_LINE_END: Final = re.compile(r"\r\n|\r|\n")  # not `splitlines`: form feeds do not end a line of Python
_WIDEST: Final = 160
_LONGEST_MESSAGE: Final = 400


def problem_at(text: str, kind: ProblemKind, message: str, line: int | None, column: int | None) -> Problem:
    """A problem with its excerpt; `column` counts characters from 1."""
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "..."
    source = _line(text, line)
    if source is None:
        return Problem(kind=kind, message=message, line=line)
    if column is None or column < 1:
        return Problem(kind=kind, message=message, line=line, source=_cut(source, 0)[0])
    column = min(column, len(source) + 1)
    return Problem(kind=kind, message=message, line=line, column=column, source=_with_caret(source, column - 1))


def problem_at_byte(text: str, kind: ProblemKind, message: str, line: int | None, byte: int | None) -> Problem:
    """The same for a place in the tree, which counts UTF-8 bytes from 0."""
    source = _line(text, line)
    if source is None or byte is None or byte < 0:
        return problem_at(text, kind, message, line, None)
    before = source.encode("utf-8", "replace")[:byte].decode("utf-8", "replace")
    return problem_at(text, kind, message, line, len(before) + 1)


def place_of(text: str, index: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character of the text."""
    lines = _LINE_END.split(text[:index])
    return len(lines), len(lines[-1]) + 1


def _line(text: str, line: int | None) -> str | None:
    if line is None or line < 1:
        return None
    lines = _LINE_END.split(text, maxsplit=line)
    return lines[line - 1] if line <= len(lines) else None


def _with_caret(source: str, index: int) -> str:
    shown, index = _cut(source, index)
    # Tabs stay tabs, so that the caret stands under its character however wide a tab is.
    margin = "".join("\t" if letter == "\t" else " " for letter in shown[:index])
    return f"{shown}\n{margin}^"


def _cut(source: str, index: int) -> tuple[str, int]:
    """A window of a long line around `index`, free of what would break an excerpt of two lines."""
    start = max(0, index - _WIDEST // 2) if len(source) > _WIDEST else 0
    shown = source[start : start + _WIDEST]
    shown = "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in shown)
    return shown.rstrip() if len(shown.rstrip()) >= index - start else shown, index - start
