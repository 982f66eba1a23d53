"""Background executions: wait for one, read along, end it; and the loop that answers pauses.

Waiting is not owning: a wait that is cancelled or times out leaves the program alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, overload

from toolfold.errors import UsageError
from toolfold.execution.output import Place
from toolfold.models import Outcome, Paused, Reply
from toolfold.tools.steps.approval import NOBODY_CAN_APPROVE
from toolfold.tools.tool import Decision

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from toolfold.execution.output import Part
    from toolfold.models import Call


class Resume(Protocol):
    """`Runtime.resume`."""

    async def __call__(
        self, execution_id: str, replies: Sequence[Reply] = (), *, decisions: Mapping[int, Decision] | None = None
    ) -> Paused | Outcome: ...


class Cancel(Protocol):
    """The part of `Runtime.executions` that the loop around pauses uses."""

    async def cancel(self, execution_id: str) -> Outcome | None: ...


class Control(Cancel, Protocol):
    """The part of `Runtime.executions` that a background execution uses."""

    @property
    def resume(self) -> Resume: ...
    def suspend(self, execution_id: str) -> None: ...
    def open_calls(self, execution_id: str) -> tuple[Call, ...]: ...
    def output(self, execution_id: str, place: Place = ...) -> AsyncIterator[Part]: ...
    def leave_background(self, execution_id: str) -> None: ...


class BackgroundExecution:
    """One execution, as whoever started it holds it. `runtime.executions.attach` finds it again by its id."""

    # Any: what a coroutine yields and is sent is asyncio's business.
    def __init__(
        self, control: Control, execution_id: str, step: Coroutine[Any, Any, Paused | Outcome] | Outcome
    ) -> None:
        self.id = execution_id
        self._control = control
        self._step: asyncio.Future[Paused | Outcome]
        if isinstance(step, Outcome):
            self._step = asyncio.get_running_loop().create_future()
            self._step.set_result(step)
        else:
            self._begin(step)

    # Any: as above.
    def _begin(self, step: Coroutine[Any, Any, Paused | Outcome]) -> None:
        self._step = asyncio.ensure_future(step)
        self._step.add_done_callback(self._settled)

    def _settled(self, step: asyncio.Future[Paused | Outcome]) -> None:
        # Asked for its error here, which marks that as seen: whoever waits is given it, and nobody has to.
        if step.cancelled() or step.exception() is not None or isinstance(step.result(), Outcome):
            self._control.leave_background(self.id)

    @property
    def is_running(self) -> bool:
        """Whether a `wait` would have to wait."""
        return not self._step.done()

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """Calls that have no reply yet."""
        return self._control.open_calls(self.id)

    @overload
    async def wait(self, timeout_seconds: None = None) -> Paused | Outcome: ...
    @overload
    async def wait(self, timeout_seconds: float | None) -> Paused | Outcome | None: ...
    async def wait(self, timeout_seconds: float | None = None) -> Paused | Outcome | None:
        """The outcome or the pause; `None` if the program still runs when the time is up.

        Raises what `start` would have raised.
        """
        if timeout_seconds is not None and (math.isnan(timeout_seconds) or timeout_seconds < 0):
            raise UsageError(f"timeout_seconds must be 0 or more, got {timeout_seconds!r}")
        step = self._step
        await asyncio.wait([step], timeout=timeout_seconds)
        return step.result() if step.done() else None

    def resume(self, replies: Sequence[Reply] = (), *, decisions: Mapping[int, Decision] | None = None) -> None:
        """Go on after a pause, in the background; `wait` tells what became of it."""
        if self.is_running or not isinstance(self._step.result(), Paused):
            raise UsageError(f"execution {self.id!r} is not paused; wait for it first")
        self._begin(self._control.resume(self.id, replies, decisions=decisions))

    async def cancel(self) -> Outcome:
        """End it, and its calls; harmless if it has ended."""
        if not self.is_running and isinstance(step := self._step.result(), Outcome):
            return step
        ended = await self._control.cancel(self.id)
        if ended is not None:  # it was paused
            self._step = asyncio.get_running_loop().create_future()
            self._step.set_result(ended)
            self._control.leave_background(self.id)
            return ended
        step = await asyncio.shield(self._step)
        return step if isinstance(step, Outcome) else await self.cancel()

    def output(self, place: Place = Place()) -> AsyncIterator[Part]:  # noqa: B008  # a frozen value
        """Output from a position on, each part once; ends with the program."""
        return self._control.output(self.id, place)

    async def close(self) -> None:
        """Its runtime is being left: its record stays open where it can be continued from it."""
        if self.is_running:
            self._control.suspend(self.id)
            await asyncio.wait([self._step])


# ----------------------------------------------------------------------------------------------------
# The loop around pauses, written once: go on until there is an outcome, answering what the outside must answer.
#
# An interface says how a pause is answered and renders what comes out. It must not know engines or ledgers.


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers to a pause: replies to some of its calls, decisions on some of its approvals."""

    replies: Sequence[Reply] = ()
    decisions: Mapping[int, Decision] = field(default_factory=dict)
    """By the call's id."""


Answer: TypeAlias = Callable[[Paused], Awaitable[Answers | None]]
"""Answers a pause. `None`, or nothing in it: the pause is for somebody else to answer, and stays."""


class Resumable(Protocol):
    """The part of `Runtime` that the loop uses."""

    @property
    def resume(self) -> Resume: ...
    @property
    def executions(self) -> Cancel: ...


async def drive(runtime: Resumable, step: Paused | Outcome, answer: Answer) -> Paused | Outcome:
    """Resume from `step` on, as long as `answer` has something to say: the outcome, or the pause that it left open.

    Whatever `answer` raises, a cancel too, comes out of here; the execution is cancelled first, because whoever
    was to answer it is gone, and its guest would wait for ever.
    """
    while isinstance(step, Paused):
        try:
            answers = await answer(step)
        except BaseException:
            await runtime.executions.cancel(step.execution_id)
            raise
        if answers is None or not (answers.replies or answers.decisions):
            return step
        step = await runtime.resume(step.execution_id, answers.replies, decisions=answers.decisions)
    return step


async def refuse_approvals(paused: Paused) -> Answers:
    """An `Answer` for interfaces that have nobody to ask: denies each approval, and leaves calls to the caller."""
    return Answers(decisions={call.id: NOBODY_CAN_APPROVE for call in paused.approvals})
