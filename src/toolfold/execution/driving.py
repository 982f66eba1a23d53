"""The loop around pauses, written once: go on until there is an outcome, answering what the outside must answer.

A door says how a pause is answered and renders what comes out. It must not know engines or ledgers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from toolfold.models import Outcome, Paused, Reply
from toolfold.tools.steps.approval import NOBODY_CAN_APPROVE
from toolfold.tools.tool import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the outside says to a pause: replies to some of its calls, decisions on some of its approvals."""

    replies: Sequence[Reply] = ()
    decisions: Mapping[int, Decision] = field(default_factory=dict)
    """By the call's id."""


Answer: TypeAlias = Callable[[Paused], Awaitable[Answers | None]]
"""Answers a pause. `None`, or nothing in it: the pause is for somebody else to answer, and stays."""


class Resumable(Protocol):
    """The part of `Runtime` that the loop uses."""

    async def resume(
        self, execution_id: str, replies: Sequence[Reply] = (), *, decisions: Mapping[int, Decision] | None = None
    ) -> Paused | Outcome: ...
    async def cancel(self, execution_id: str) -> Outcome | None: ...


async def drive(runtime: Resumable, step: Paused | Outcome, answer: Answer) -> Paused | Outcome:
    """Resume from `step` on, as long as `answer` has something to say: the outcome, or the pause that it left open.

    Whatever `answer` raises, a cancel too, comes out of here; the execution is cancelled first, because whoever
    was to answer it is gone, and its guest would wait for ever.
    """
    while isinstance(step, Paused):
        try:
            answers = await answer(step)
        except BaseException:
            await runtime.cancel(step.execution_id)
            raise
        if answers is None or not (answers.replies or answers.decisions):
            return step
        step = await runtime.resume(step.execution_id, answers.replies, decisions=answers.decisions)
    return step


async def refuse_approvals(paused: Paused) -> Answers:
    """An `Answer` for doors that have nobody to ask: denies each approval, and leaves calls to the caller."""
    return Answers(decisions={call.id: NOBODY_CAN_APPROVE for call in paused.approvals})
