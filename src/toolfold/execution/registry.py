"""Registry of the executions that run or are paused in this process, the ways in which one leaves, and control by id.

A paused one is closed at once: `close` ends its guest and leaves its record open, so that whoever resumes it replays
it; `end` also writes an outcome. One that runs is told to end, with an outcome (`stop`) or without (`fail`), and
whoever waits for it closes it when it has.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from toolfold.engines.base import Ended, Guests
from toolfold.errors import Fenced, LedgerFailed, UsageError
from toolfold.execution.background import BackgroundExecution
from toolfold.execution.execution import Execution
from toolfold.execution.history import end_recorded, read_recorded
from toolfold.execution.output import OutputWatch, Place
from toolfold.execution.pause import PausedMemory
from toolfold.ledger import base
from toolfold.models import Problem
from toolfold.sessions import bound_names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from contextlib import AbstractContextManager

    from toolfold.engines.base import Engine
    from toolfold.errors import ToolfoldError
    from toolfold.execution.background import Resume
    from toolfold.execution.execution import EarlyEnd
    from toolfold.execution.history import RecordedExecution
    from toolfold.execution.output import Part
    from toolfold.execution.pause import PausedLimits
    from toolfold.execution.request import ExecutionPlan, Services
    from toolfold.ledger.base import Ledger
    from toolfold.models import Call, LibrarySet, Outcome, Paused, Status
    from toolfold.sessions import Sessions

BeforeFiles: TypeAlias = "Callable[[str], Awaitable[None]]"
"""Asked before an execution's files are kept for its session; raises `Fenced` if another process may have it."""
_TOO_MUCH_PAUSED: Final = Problem(
    kind="memory",
    message="paused programs used too much memory, and this one cannot be replayed; use less memory, or no threads",
)


class LiveExecutions:
    """By id; each is here from its start to its end, or until it is let go of."""

    def __init__(
        self, engine: Engine, sessions: Sessions, limits: PausedLimits, before_files: BeforeFiles | None
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._before_files = before_files
        self._paused_memory = PausedMemory(limits)
        self._by_id: dict[str, Execution] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._watches: dict[str, OutputWatch] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        """In the order in which they came."""
        return tuple(self._by_id)

    def get(self, execution_id: str) -> Execution | None:
        """The execution, if it is here."""
        return self._by_id.get(execution_id)

    async def find(self, execution_id: str) -> Execution | None:
        """As `get`, to go on with it; one whose guest died in its pause is let go of, to be replayed."""
        execution = self._by_id.get(execution_id)
        if execution is not None and execution.is_lost():
            await self.close(execution)
            return None
        return execution

    def add(self, plan: ExecutionPlan, services: Services) -> Execution:
        """Add an execution that is about to be opened."""
        execution = Execution(plan, services, self._weigh)
        self._by_id[execution.id] = execution
        if self._watches and (watch := self._watches.get(execution.id)) is not None:
            execution.show(watch)
        return execution

    def watch(self, execution_id: str) -> OutputWatch:
        """Watch the output of an execution, also before it is here."""
        watch = self._watches.get(execution_id)
        if watch is None:
            watch = self._watches[execution_id] = OutputWatch()
            if (execution := self._by_id.get(execution_id)) is not None:
                execution.show(watch)
        return watch

    def unwatch(self, execution_id: str) -> None:
        """It is not here any more, or will not come."""
        if (watch := self._watches.pop(execution_id, None)) is not None:
            watch.end()

    def hand_back(self, execution: Execution) -> None:
        """Its caller has it as paused: whoever waits for its session may be told so."""
        if execution.plan.session is not None:
            self._sessions.pause(execution.plan.session, execution.id)

    def take_back(self, execution: Execution) -> None:
        """Its caller has answered."""
        self._paused_memory.remove(execution.id)
        if execution.plan.session is not None:
            self._sessions.go_on(execution.plan.session)

    async def close(self, execution: Execution) -> None:
        """End its guest, and let the next program of its session have its turn; harmless if it has left already."""
        if execution.life.is_over:
            return
        execution_id = execution.id
        if self._by_id.get(execution_id) is execution:  # else another was started with its id, which the ledger refuses
            del self._by_id[execution_id]
            self._paused_memory.remove(execution_id)
        await execution.close()
        if self._watches:
            self.unwatch(execution.id)
        session = execution.plan.session
        if session is not None:
            if session.keeps_names and not self._engine.has_session(session.id):
                session.names.clear()
            self._sessions.leave(session)

    async def end(self, execution: Execution, status: Status = "cancelled", problem: Problem | None = None) -> Outcome:
        """End it with an outcome that its program had no say in."""
        await self.close(execution)
        return await execution.finish(Ended(status=status, problem=problem))

    async def stop(self, execution_id: str, status: EarlyEnd) -> Outcome | None:
        """End it with an outcome; if it runs, whoever waits for it gets that. Unknown ids are ignored."""
        execution = self._by_id.get(execution_id)
        if execution is None:
            return None
        if execution.life.is_paused:
            return await self.end(execution, status)
        if status == "timeout":
            execution.time_out()
        else:
            execution.life.stop(status)
        return None

    def fail(self, execution_id: str, reason: ToolfoldError) -> None:
        """End a running execution without an outcome; its waiters get the reason."""
        execution = self._by_id.get(execution_id)
        if execution is not None and not execution.life.is_paused:
            execution.life.fail(reason)

    async def release(self, execution_id: str) -> None:
        """If it is paused, end its guest; its record has all of it."""
        execution = self._by_id.get(execution_id)
        if execution is not None and execution.life.is_paused:
            await self.close(execution)

    async def finish(self, execution: Execution, last: Ended) -> Outcome:
        """Its program has ended: keep its session's files, end its guest, write its outcome."""
        notes: tuple[str, ...] = ()
        deleted: tuple[str, ...] = ()
        if isinstance(execution.life.failure, (Fenced, LedgerFailed)):
            raise execution.life.failure  # its record stays open: another process has it, or it is tried again
        session, start_record = execution.plan.session, execution.plan.start_record
        if session is not None:
            if self._before_files is not None:
                await self._before_files(execution.id)
            if start_record.files or last.files:  # in a thread: another process may have its turn of the folder
                notes = await asyncio.to_thread(self._sessions.update, session.id, start_record, last)
            if not notes:  # else the session is as it was
                deleted = tuple(file.name for file in start_record.files if file.name in last.deleted)
            if session.keeps_names:
                session.names |= bound_names(start_record.program.text)
        await self.close(execution)
        return await execution.finish(last, notes, deleted)

    async def close_all(self) -> None:
        """Their runtime is being left."""
        for execution in tuple(self._by_id.values()):
            await self.close(execution)

    def _weigh(self, execution: Execution, held_bytes: int) -> None:
        """A guest stands still and takes this much memory: the oldest make room if it is too much in all."""
        for execution_id in self._paused_memory.add(execution.id, execution.plan.start_record.tenant, held_bytes):
            task = asyncio.create_task(self._make_room(execution_id))
            self._leaving.add(task)  # or it could be collected before it has run
            task.add_done_callback(self._leaving.discard)

    async def _make_room(self, execution_id: str) -> None:
        execution = self._by_id.get(execution_id)
        if execution is None or not execution.life.is_paused:
            return
        if execution.record.can_be_replayed:
            await self.close(execution)
        else:
            await self.end(execution, "limit", _TOO_MUCH_PAUSED)


# ----------------------------------------------------------------------------------------------------
# What may be done to an execution between its steps: end it, let go of it, read its record, stop its clock.


class ExecutionControl:
    """A runtime's executions by their ids, for interfaces (`Runtime.executions`). Unknown ids are ignored.

    Args:
        resume: Of the runtime.
    """

    def __init__(self, live: LiveExecutions, engine: Engine, ledger: Ledger, resume: Resume) -> None:
        self._live = live
        self._engine = engine
        self._ledger = ledger
        self.resume = resume
        self._background: dict[str, BackgroundExecution] = {}
        """Those that run or are paused, by id."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of those that run or are paused here."""
        return self._live.ids

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
        self._live.fail(execution_id, base.fenced_error(execution_id))

    def suspend(self, execution_id: str) -> None:
        """End the guest of an execution that runs and leave its record open: the host stops, and `resume` goes on."""
        self._live.fail(execution_id, base.suspended_error(execution_id))

    async def recorded(self, execution_id: str) -> RecordedExecution | None:
        """What is on record of an execution, whichever process holds it; `None` if nothing is."""
        history = await self._ledger.load(execution_id)
        return None if history is None else read_recorded(history)

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
        if (execution := self._background.get(execution_id)) is not None:
            return execution
        if self._live.get(execution_id) is not None:
            raise UsageError(f"execution {execution_id!r} was not started in the background")
        recorded = await self.recorded(execution_id)
        if recorded is None:
            raise UsageError(f"no execution {execution_id!r} in the ledger; it was cancelled or never existed")
        if recorded.outcome is not None:
            return BackgroundExecution(self, execution_id, recorded.outcome)
        return self.begin_in_background(execution_id, self.resume(execution_id))

    # Any: what a coroutine yields and is sent is asyncio's business.
    def begin_in_background(
        self, execution_id: str, step: Coroutine[Any, Any, Paused | Outcome]
    ) -> BackgroundExecution:
        """A step that nobody waits for yet."""
        execution = self._background[execution_id] = BackgroundExecution(self, execution_id, step)
        return execution

    def leave_background(self, execution_id: str) -> None:
        """It has ended, or has left this process; readers need not wait for what will not come."""
        if self._live.get(execution_id) is None:
            self._background.pop(execution_id, None)
            self._live.unwatch(execution_id)

    async def close(self) -> None:
        """Their runtime is being left: records stay open where they can be continued."""
        for execution in tuple(self._background.values()):
            await execution.close()
        await self._live.close_all()

    def standing_clock(self, execution_id: str) -> AbstractContextManager[None]:
        """The execution's wall clock stands still while this is entered: a person is asked in the course of a call."""
        execution = self._live.get(execution_id)
        return nullcontext() if execution is None else execution.clock.standing()

    def put_clock_back(self, execution_id: str, seconds: float) -> None:
        """So much is left of the wall clock of a paused execution: a replay is faster than the program was."""
        execution = self._live.get(execution_id)
        if execution is not None and execution.life.is_paused:
            execution.clock.put_back(seconds)

    # the guests that they run in

    async def preload(self, library_set: LibrarySet) -> None:
        """Have guests with these libraries wait for programs, where the engine can."""
        stocked = self._engine.capabilities.stocked
        if stocked is not None:
            await stocked.preload(library_set)

    async def guests(self) -> Guests:
        """How many there are now, and what they hold; none where the engine cannot tell."""
        stocked = self._engine.capabilities.stocked
        return Guests() if stocked is None else await stocked.guests()
