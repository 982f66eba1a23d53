"""Registry of the executions that run or are paused in this process, and the ways in which one leaves.

A paused one is closed at once: `close` ends its guest and leaves its record open, so that whoever resumes it replays
it; `end` also writes an outcome. One that runs is told to end, with an outcome (`stop`) or without (`fail`), and
whoever waits for it closes it when it has.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeAlias

from toolfold.engines.base import Ended
from toolfold.errors import Fenced, LedgerFailed
from toolfold.execution.execution import Execution
from toolfold.execution.output import OutputWatch
from toolfold.execution.pause import PausedMemory
from toolfold.models import Problem
from toolfold.sessions import bound_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolfold.engines.base import Engine
    from toolfold.errors import ToolfoldError
    from toolfold.execution.execution import EarlyEnd
    from toolfold.execution.pause import PausedLimits
    from toolfold.execution.request import ExecutionPlan, Services
    from toolfold.models import Outcome, Status
    from toolfold.sessions import Sessions

BeforeFiles: TypeAlias = "Callable[[str], Awaitable[None]]"
"""Asked before an execution's files are kept for its session; raises `Fenced` if another process may have it."""
_TOO_MUCH_PAUSED: Final = Problem(
    kind="memory",
    message="paused programs held too much memory, and this one cannot be replayed; hold less, or use no threads",
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

    @property
    def cores(self) -> int:
        """That the engine has on other machines; 0 where programs run on this one."""
        return self._engine.capabilities.cores

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
        """One that is about to be opened."""
        execution = Execution(plan, services, self._weigh)
        self._by_id[execution.id] = execution
        if self._watches and (watch := self._watches.get(execution.id)) is not None:
            execution.show(watch)
        return execution

    def watch(self, execution_id: str) -> OutputWatch:
        """For whoever reads along; also before it is here."""
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
        """If it runs, end it without an outcome; whoever waits for it is given the reason."""
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
