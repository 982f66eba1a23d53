"""Hints for a failed program from what tools were seen to return; a tool may always return something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolfold.models import Problem
from toolfold.program.check import Checker

if TYPE_CHECKING:
    from toolfold.models import Begun
    from toolfold.tools.learning import Learning


def never_seen(begun: Begun, learning: Learning) -> tuple[str, ...]:
    """Where the program reads a key that no reply of a tool has had so far."""
    told = learning.told(begun.tools, begun.tenant, is_closed=True)
    if told is begun.tools:
        return ()
    problem = Checker(told).check(begun.program.text, limits=begun.limits)
    if not isinstance(problem, Problem) or problem.kind != "reply":
        return ()
    return (f"line {problem.line}: {problem.message}, as far as was seen",)
