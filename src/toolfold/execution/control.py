"""What may be done to an execution between its steps: end it, let go of it, read its record, stop its clock."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, Self

from toolfold.errors import EngineCrashed, UsageError
from toolfold.execution.background import BackgroundExecution
from toolfold.execution.recorded import end_recorded, recorded
from toolfold.execution.watching import Place
from toolfold.ledger import refusals

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
    from contextlib import AbstractContextManager

    from toolfold.execution.live import LiveExecutions
    from toolfold.execution.mapping import Mapped, Programs
    from toolfold.execution.recorded import Recorded
    from toolfold.execution.watching import Part
    from toolfold.ledger.record import Ledger
    from toolfold.models import Call, Outcome, Paused, Reply, Status, ToolSpec
    from toolfold.tools.tool import Decision


_TRIES: Final = 3
"""How often an execution goes on, if its guest is killed each time."""


class ExecutionControl:
    """The part of a runtime that acts on executions by their ids. Unknown ids are ignored."""

    def __init__(self, live: LiveExecutions, ledger: Ledger) -> None:
        self._live = live
        self._ledger = ledger
        self._background: dict[str, BackgroundExecution] = {}
        """Those that run or are paused, by id."""

    async def __aenter__(self) -> Self:
        """A runtime says how it begins."""
        raise NotImplementedError

    async def __aexit__(self, *exc: object) -> None:
        """A runtime says how it ends."""
        raise NotImplementedError

    async def open(self) -> Self:
        """Enter it where `async with` does not fit, as in the cells of a notebook; `close` ends it."""
        return await self.__aenter__()

    async def close(self) -> None:
        """Leave a runtime that was opened with `open`: every guest ends."""
        await self.__aexit__(None, None, None)

    async def resume(
        self, execution_id: str, replies: Sequence[Reply] = (), *, decisions: Mapping[int, Decision] | None = None
    ) -> Paused | Outcome:
        """Go on with some or all of the open calls answered or decided; also after a restart of this process."""
        for _ in range(_TRIES):
            step = await self._resume(execution_id, replies, decisions or {})
            if step is not None:
                return step
        raise EngineCrashed(f"the guest of execution {execution_id!r} was killed each time it went on; resume it again")

    # Not an abstract class: in a forked child a runtime becomes an `Inherited`, which must have the same layout.
    async def _resume(
        self, execution_id: str, replies: Sequence[Reply], decisions: Mapping[int, Decision]
    ) -> Paused | Outcome | None:
        """A runtime says how; `None`: the guest died with no call made since the pause, so that a replay is safe."""
        raise NotImplementedError

    # Any: a runtime says which.
    async def run(self, *args: Any, **options: Any) -> Outcome:
        """A program, to its end; a runtime says how."""
        raise NotImplementedError

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What programs may call; a runtime knows."""
        raise NotImplementedError

    @property
    def executions(self) -> tuple[str, ...]:
        """Ids of those that run or are paused here."""
        return self._live.ids

    def map(self, programs: Programs, *, in_flight: int | None = None) -> AsyncGenerator[Mapped, None]:
        """Run many programs, and yield each with its outcome as soon as it ends.

        `programs` are texts, or `toolfold.batches.Item`s with what differs from one to the next; they are read only
        as there is room, `in_flight` at a time: by default twice the cores that the engine has. Failures of programs
        are outcomes. Failures of the engine are tried again where no call can happen twice, and then raised. Closing
        the iterator ends all that still runs.
        """
        # Here, not at the top: most runtimes run no batch.
        from toolfold.execution.mapping import mapped  # noqa: PLC0415

        cores = self._live.cores or os.cpu_count() or 1
        return mapped(self, programs, in_flight=2 * cores if in_flight is None else in_flight)

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

    # reading along

    def open_calls(self, execution_id: str) -> tuple[Call, ...]:
        """Calls of an execution of this process that have no reply yet; none for unknown ids."""
        execution = self._live.get(execution_id)
        return () if execution is None else execution.open_calls

    async def output(self, execution_id: str, place: Place = Place()) -> AsyncIterator[Part]:  # noqa: B008  # frozen
        """What an execution of this process prints, from a place on, each part once and in order.

        Ends when the execution has ended, or has left this process; at once for one that is not here.
        """
        if execution_id in self._live.ids or execution_id in self._background:
            async for part in self._live.watch(execution_id).read(place):
                yield part

    async def attach(self, execution_id: str) -> BackgroundExecution:
        """An execution that was started in the background: here, or in a process that is gone; then it goes on here.

        Raises:
            UsageError: It is unknown, or somebody waits for it here already.
        """
        if (found := self._background.get(execution_id)) is not None:
            return found
        if self._live.get(execution_id) is not None:
            raise UsageError(f"execution {execution_id!r} was not started in the background")
        recorded = await self.recorded(execution_id)
        if recorded is None:
            raise UsageError(f"no execution {execution_id!r} in the ledger; it was cancelled or never existed")
        if recorded.outcome is not None:
            return BackgroundExecution(self, execution_id, recorded.outcome)
        return self._in_background(execution_id, self.resume(execution_id))

    # Any: what a coroutine yields and is sent is asyncio's business.
    def _in_background(self, execution_id: str, step: Coroutine[Any, Any, Paused | Outcome]) -> BackgroundExecution:
        execution = self._background[execution_id] = BackgroundExecution(self, execution_id, step)
        return execution

    def leave_background(self, execution_id: str) -> None:
        """It has ended, or has left this process; readers need not wait for what will not come."""
        if self._live.get(execution_id) is None:
            self._background.pop(execution_id, None)
            self._live.unwatch(execution_id)

    async def _close_background(self) -> None:
        for execution in tuple(self._background.values()):
            await execution.close()

    def standing_clock(self, execution_id: str) -> AbstractContextManager[None]:
        """The execution's wall clock stands still while this is entered: a person is asked in the course of a call."""
        execution = self._live.get(execution_id)
        return nullcontext() if execution is None else execution.clock.standing()

    def put_clock_back(self, execution_id: str, seconds: float) -> None:
        """So much is left of the wall clock of a paused execution: a replay is faster than the program was."""
        execution = self._live.get(execution_id)
        if execution is not None and execution.life.is_paused:
            execution.clock.put_back(seconds)
