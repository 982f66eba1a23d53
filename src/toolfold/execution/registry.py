"""Registry of the executions that run or are paused in this process, the ways in which one leaves, and control by id.

A paused one is closed at once: `close` ends its guest and leaves its record open, so that whoever resumes it replays
it; `end` also writes an outcome. One that runs is told to end, with an outcome (`stop`) or without (`fail`), and
whoever waits for it closes it when it has.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, overload

from toolfold import fork_safety
from toolfold.engines.base import Ended, Engine, Guests, Stocked
from toolfold.errors import Fenced, LedgerFailed, ToolfoldError, UsageError
from toolfold.execution.execution import EarlyEnd, Execution
from toolfold.execution.outcome import isolation_of
from toolfold.execution.pauses import PausedLimits, PausedMemory
from toolfold.execution.program_output import OutputWatch, Part, Place
from toolfold.execution.recorded_history import RecordedExecution, end_recorded, read_recorded
from toolfold.ledger import base
from toolfold.models import Call, Language, LibrarySet, Limits, Outcome, Paused, Problem, Reply, Status
from toolfold.sessions import Sessions, bound_names
from toolfold.tools.router_steps import NOBODY_CAN_APPROVE
from toolfold.tools.tool import Decision

if TYPE_CHECKING:
    from toolfold.execution.request import ExecutionPlan, Services
    from toolfold.ledger.base import Ledger

    Step: TypeAlias = Coroutine[object, None, Paused | Outcome]


# ----------------------------------------------------------------------------------------------------
# Background executions: wait for one, read along, end it; and the loop that answers pauses.
#
# Waiting is not owning: a wait that is cancelled or times out leaves the program alone.


class BackgroundExecution:
    """One execution, as whoever started it holds it. `runtime.executions.attach` finds it again by its id."""

    def __init__(self, control: ExecutionControl, execution_id: str, step: Step | Outcome) -> None:
        self.id = execution_id
        self._control = control
        self._step: asyncio.Future[Paused | Outcome]
        self._begin(step)

    def _begin(self, step: Step | Outcome) -> None:
        if isinstance(step, Outcome):
            self._step = asyncio.get_running_loop().create_future()
            self._step.set_result(step)
        else:
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
            self._begin(ended)
            self._control.leave_background(self.id)
            return ended
        step = await asyncio.shield(self._step)
        return step if isinstance(step, Outcome) else await self.cancel()

    def output(self, place: Place = Place()) -> AsyncIterator[Part]:  # noqa: B008  # a frozen value
        """Output from a position on, each part once; ends with the program."""
        return self._control.output(self.id, place)

    async def close(self) -> None:
        """Suspend it; its record stays open where it can be continued."""
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
    def resume(self) -> Callable[..., Step]: ...
    @property
    def executions(self) -> ExecutionControl: ...


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


BeforeFiles: TypeAlias = "Callable[[str], Awaitable[None]]"
"""Asked before an execution's files are kept for its session; raises `Fenced` if another process may have it."""
_TOO_MUCH_PAUSED: Final = Problem(
    kind="memory",
    message="paused programs used too much memory, and this one cannot be replayed; use less memory, or no threads",
)


class LiveExecutions:
    """Executions by id, each from its start to its end or its release."""

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
        return tuple(self._by_id)

    def get(self, execution_id: str) -> Execution | None:
        return self._by_id.get(execution_id)

    async def find(self, execution_id: str) -> Execution | None:
        """As `get`, to resume it; one whose guest died in its pause is closed, to be replayed."""
        execution = self._by_id.get(execution_id)
        if execution is not None and execution.is_lost():
            await self.close(execution)
            return None
        return execution

    def add(self, plan: ExecutionPlan, services: Services) -> Execution:
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
        if (watch := self._watches.pop(execution_id, None)) is not None:
            watch.end()

    def hand_back(self, execution: Execution) -> None:
        """Return it to its caller as paused, and tell whoever waits for its session."""
        if execution.plan.session is not None:
            self._sessions.pause(execution.plan.session, execution.id)

    def take_back(self, execution: Execution) -> None:
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
            if execution.plan.can_pause:
                self._paused_memory.remove(execution_id)
        await execution.close()
        if self._watches:
            self.unwatch(execution.id)
        session = execution.plan.session
        if session is not None:
            if session.keeps_names and not self._engine.has_session(session.id):
                session.forget_names()
            self._sessions.leave(session)

    async def end(self, execution: Execution, status: Status = "cancelled", problem: Problem | None = None) -> Outcome:
        """End it with an outcome that its program had no say in."""
        await self.close(execution)
        return await execution.finish(Ended(status=status, problem=problem))

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
            if session.keeps_names and start_record.program.language == "python":
                session.names |= bound_names(start_record.program.text)
            elif session.keeps_names and not notes and (last.files or deleted):
                self._engine.end_session(session.id)  # its guest still has the files as they were
                if session.names:
                    session.names.clear()
                    notes = ("session variables of Python programs are gone, because this bash program changed files",)
        await self.close(execution)
        return await execution.finish(last, notes, deleted)

    async def close_all(self) -> None:
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


class ExecutionControl(fork_safety.ProcessOwned):
    """A runtime's executions by their ids, for interfaces (`Runtime.executions`). Unknown ids are ignored."""

    def __init__(
        self, live: LiveExecutions, engine: Engine, ledger: Ledger, limits: Limits, resume: Callable[..., Step],
        languages: frozenset[Language] | None = None,
    ) -> None:  # fmt: skip
        self._executions = live
        self._languages = languages
        self.engine = engine
        self.ledger = ledger
        self.limits = limits
        """Of programs that are given none of their own."""
        self.resume = resume
        self._background: dict[str, BackgroundExecution] = {}
        """Those that run or are paused, by id."""

    @property
    def _live(self) -> LiveExecutions:
        self._check_process()
        return self._executions

    @property
    def ids(self) -> tuple[str, ...]:
        """Of those that run or are paused here."""
        return self._live.ids

    # The ways to end an execution. Two things differ: whether an outcome is written, and what those who wait are told.

    async def cancel(self, execution_id: str) -> Outcome | None:
        """End an execution, running or paused; unknown ids are ignored, so that a cancel can race the end.

        The outcome of one that was paused; of one that runs, whoever waits for it gets it.
        """
        return await self._stop(execution_id, "cancelled")

    async def expire(self, execution_id: str) -> Outcome | None:
        """As `cancel`, at a deadline of the caller's own that counts paused time: the outcome is a timeout."""
        return await self._stop(execution_id, "timeout")

    async def release(self, execution_id: str) -> None:
        """Let go of the guest of a paused execution; the ledger has all of it, and `resume` replays it."""
        execution = self._live.get(execution_id)
        if execution is not None and execution.life.is_paused:
            await self._live.close(execution)

    async def abandon(self, execution_id: str) -> None:
        """End the guest of an execution that another process goes on with; nothing of it is written from here."""
        await self.release(execution_id)
        self._fail(execution_id, base.fenced_error(execution_id))

    def suspend(self, execution_id: str) -> None:
        """End the guest of an execution that runs and leave its record open: the host stops, and `resume` goes on."""
        self._fail(execution_id, base.suspended_error(execution_id))

    async def _stop(self, execution_id: str, status: EarlyEnd) -> Outcome | None:
        """End it with an outcome; if it runs, whoever waits for it gets that."""
        execution = self._live.get(execution_id)
        if execution is None:
            return None
        if execution.life.is_paused:
            return await self._live.end(execution, status)
        if status == "timeout":
            execution.time_out()
        else:
            execution.life.stop(status)
        return None

    def _fail(self, execution_id: str, reason: ToolfoldError) -> None:
        """End a running execution without an outcome; its waiters get the reason."""
        execution = self._live.get(execution_id)
        if execution is not None and not execution.life.is_paused:
            execution.life.fail(reason)

    async def recorded(self, execution_id: str) -> RecordedExecution | None:
        """What is on record of an execution, whichever process holds it; `None` if nothing is."""
        history = await self.ledger.load(execution_id)
        return None if history is None else read_recorded(history)

    async def end_recorded(self, execution_id: str, status: Status = "cancelled") -> bool:
        """End an execution that no process holds; false if one does, or it has ended already."""
        return await end_recorded(self.ledger, execution_id, status)

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
        is_live = self._live.get(execution_id) is not None
        if (execution := self._background.get(execution_id)) is not None:
            return execution
        if is_live:
            raise UsageError(f"execution {execution_id!r} was not started in the background")
        recorded = await self.recorded(execution_id)
        if recorded is None:
            raise UsageError(f"no execution {execution_id!r} in the ledger; it was cancelled or never existed")
        if recorded.outcome is not None:
            return BackgroundExecution(self, execution_id, recorded.outcome)
        return self.begin_in_background(execution_id, self.resume(execution_id))

    def begin_in_background(self, execution_id: str, step: Step) -> BackgroundExecution:
        execution = self._background[execution_id] = BackgroundExecution(self, execution_id, step)
        return execution

    def leave_background(self, execution_id: str) -> None:
        """End the readers of an execution that has ended, or has left this process."""
        if self._live.get(execution_id) is None:
            self._background.pop(execution_id, None)
            self._live.unwatch(execution_id)

    async def close(self) -> None:
        """Suspend all; records stay open where they can be continued."""
        if self._is_inherited:
            return
        for execution in tuple(self._background.values()):
            await execution.close()
        await self._live.close_all()

    def standing_clock(self, execution_id: str, source: str = "") -> AbstractContextManager[None]:
        """The execution's wall clock stands still while this is entered: a person is asked in the course of a call.

        If tools of a source ask, the time does not count as that of their open calls either.
        """
        execution = self._live.get(execution_id)
        return nullcontext() if execution is None else execution.calls.person_asked(source)

    def put_clock_back(self, execution_id: str, seconds: float) -> None:
        """So much is left of the wall clock of a paused execution: a replay is faster than the program was."""
        execution = self._live.get(execution_id)
        if execution is not None and execution.life.is_paused:
            execution.clock.put_back(seconds)

    # the guests that they run in

    def allows_bash(self, *, unless_set: bool = False) -> bool:
        """Whether clients may send bash programs; where the settings say nothing, `unless_set`."""
        return unless_set if self._languages is None else "bash" in self._languages

    @property
    def shell_profile(self) -> str:
        """What outcomes of bash programs say of their isolation; empty if this engine runs none."""
        runs_bash = "bash" in self.engine.capabilities.languages
        return isolation_of("bash", self.engine.isolation) if runs_bash else ""

    async def preload(self, library_set: LibrarySet) -> None:
        """Have guests with these libraries wait for programs, where the engine can."""
        if (stocked := self._stocked) is not None:
            await stocked.preload(library_set)

    async def guests(self) -> Guests:
        """How many there are now, and what they hold; none where the engine cannot tell."""
        stocked = self._stocked
        return Guests() if stocked is None else await stocked.guests()

    @property
    def _stocked(self) -> Stocked | None:
        self._check_process()
        return self.engine.capabilities.stocked
