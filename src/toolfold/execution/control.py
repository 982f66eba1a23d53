"""What may be done to an execution between its steps: end it, let go of it, read its record, stop its clock."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from toolfold.execution.recorded import end_recorded, recorded
from toolfold.ledger import refusals

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from toolfold.execution.live import LiveExecutions
    from toolfold.execution.recorded import Recorded
    from toolfold.ledger.record import Ledger
    from toolfold.models import Outcome, Status


class ExecutionControl:
    """The part of a runtime that acts on executions by their ids. Unknown ids are ignored."""

    def __init__(self, live: LiveExecutions, ledger: Ledger) -> None:
        self._live = live
        self._ledger = ledger

    # The ways to end an execution. Two things differ: whether an outcome is written, and what those who wait are told.

    async def cancel(self, execution_id: str) -> Outcome | None:
        """End an execution, running or paused; unknown ids are ignored, so that a cancel can race the end.

        The outcome of one that was paused; of one that runs, whoever waits for it gets it.
        """
        return await self._live.stop(execution_id, "cancelled")

    async def expire(self, execution_id: str) -> None:
        """As `cancel`, at a deadline of the caller's own that counts paused time: the outcome is a timeout."""
        await self._live.stop(execution_id, "timeout")

    async def release(self, execution_id: str) -> None:
        """Let go of the guest of a paused execution; the ledger has all of it, and `resume` replays it."""
        await self._live.release(execution_id)

    async def abandon(self, execution_id: str) -> None:
        """End the guest of an execution that another process goes on with; nothing of it is written from here."""
        await self._live.release(execution_id)
        self._live.fail(execution_id, refusals.fenced(execution_id))

    def suspend(self, execution_id: str) -> None:
        """End the guest of an execution that runs and leave its record open: the host stops, and `resume` goes on."""
        self._live.fail(execution_id, refusals.suspended(execution_id))

    async def recorded(self, execution_id: str) -> Recorded | None:
        """What is on record of an execution, whichever process holds it; `None` if nothing is."""
        history = await self._ledger.load(execution_id)
        return None if history is None else recorded(history)

    async def end_recorded(self, execution_id: str, status: Status = "cancelled") -> bool:
        """End an execution that no process holds; false if one does, or it has ended already."""
        return await end_recorded(self._ledger, execution_id, status)

    def standing_clock(self, execution_id: str) -> AbstractContextManager[None]:
        """The execution's wall clock stands still while this is entered: a person is asked in the course of a call."""
        execution = self._live.get(execution_id)
        return nullcontext() if execution is None else execution.clock.standing()

    def put_clock_back(self, execution_id: str, seconds: float) -> None:
        """So much is left of the wall clock of a paused execution: a replay is faster than the program was."""
        execution = self._live.get(execution_id)
        if execution is not None and execution.life.is_paused:
            execution.clock.put_back(seconds)
