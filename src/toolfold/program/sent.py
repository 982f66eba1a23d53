"""The program in a text as it was sent: the text itself, or what it is without a margin, a fence and the like."""

from __future__ import annotations

import ast
from typing import NamedTuple

from toolfold.models import Limits, Problem
from toolfold.program.cleaning import Refused, clean, is_typed_in_ipython, unwrap_json
from toolfold.program.other_languages import with_fix
from toolfold.program.parse import parse, without_margin
from toolfold.program.places import problem_at


class Sent(NamedTuple):
    """A program that was found."""

    text: str
    tree: ast.Module
    notes: tuple[str, ...] = ()
    """What was left out around it or read otherwise."""
    packages: tuple[tuple[str, int], ...] = ()
    """What it wants to have installed, and the line that says so."""


def program_in(text: str, limits: Limits) -> Sent | Problem:
    """The program, or what Python says against the text."""
    wrapped = unwrap_json(text)
    if wrapped is not None:
        inside = program_in(wrapped.text, limits)
        return inside if isinstance(inside, Problem) else inside._replace(notes=wrapped.notes + inside.notes)
    found = _as_it_is(text, limits)
    is_program = not isinstance(found, Problem) or found.kind != "syntax"
    if is_program and not is_typed_in_ipython(text):
        return found
    cleaned = clean(text, lambda one: not isinstance(_as_it_is(one, limits), Problem))
    if cleaned is None:
        return with_fix(found, text) if isinstance(found, Problem) else found
    if isinstance(cleaned, Refused):
        return problem_at(text, "syntax", cleaned.message, cleaned.line, None)
    if unwrap_json(cleaned.text) is not None:
        inside = program_in(cleaned.text, limits)
        return inside if isinstance(inside, Problem) else inside._replace(notes=cleaned.notes + inside.notes)
    inside = _as_it_is(cleaned.text, limits)
    if isinstance(inside, Problem):
        return with_fix(inside, cleaned.text)
    return Sent(inside.text, inside.tree, cleaned.notes, cleaned.packages)


def _as_it_is(text: str, limits: Limits) -> Sent | Problem:
    """Without cleaning, but for a margin of the whole."""
    tree = parse(text, limits)
    if isinstance(tree, ast.Module):
        return Sent(text, tree)
    moved = without_margin(text) if tree.kind == "syntax" else text
    if moved == text:
        return tree
    tree = parse(moved, limits)
    return tree if isinstance(tree, Problem) else Sent(moved, tree)
