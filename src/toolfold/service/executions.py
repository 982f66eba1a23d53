"""Executions that outlive their requests: the states that one can be in, and the service that holds them.

1. What a process holds is a cache of the ledger: what is not here is on record and can be replayed.
2. A step runs in a task of its own, so a request that is cut off leaves the program alone or suspends it.
3. An execution ends with its program, by a cancel, or by its deadline, whether it runs or is paused.
4. A lost execution belongs to another process. Late news about it changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args

from toolfold.errors import EngineError, Fenced, LedgerFailed, UsageError
from toolfold.ledger.base import suspended_error
from toolfold.models import Outcome, Paused, Reply
from toolfold.runtime import Runtime
from toolfold.service.answer_memory import BoundedMemory, RoundAnswer
from toolfold.service.owners import Owner, Waiting, spawn
from toolfold.tools.tool import Decision

A = TypeVar("A")
Step: TypeAlias = Coroutine[object, None, Paused | Outcome]
State: TypeAlias = Literal["starting", "unread", "doomed", "running", "paused", "over", "lost"]
"""`unread`: another process paused the execution, and this one has not read its record yet."""
Event: TypeAlias = Literal["begin", "read", "cancel", "pause", "resume", "end", "lose"]

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    ("starting", "begin"): "running",
    ("starting", "end"): "over",  # also if it was cancelled while it waited for its turn
    ("unread", "read"): "running",
    ("unread", "cancel"): "doomed",  # there is nothing to cancel until the replay has brought it back
    ("unread", "end"): "over",  # the record says that it has ended
    ("doomed", "read"): "running",
    ("doomed", "cancel"): "doomed",
    ("doomed", "end"): "over",
    ("running", "pause"): "paused",
    ("running", "end"): "over",
    ("paused", "resume"): "running",
    ("paused", "end"): "over",  # its deadline passed, or it was cancelled
    ("over", "end"): "over",  # cancelled in the queue, and then its time ran out there
    **{(state, "lose"): "lost" for state in get_args(State)},
    **{("lost", event): "lost" for event in get_args(Event)},
}
HOST_FAILURES: Final = (EngineError, LedgerFailed, OSError)
"""The program is not to blame, and the ledger knows how far it came."""
GRACE_SECONDS: Final = 2.0
"""For the runtime to end a program by its own clock, and so with its output, before we give up on it."""
MAX_REMEMBERED: Final = 2000
"""Ended executions whose last answer can be repeated; older ones are read from the ledger."""
MAX_REQUESTS: Final = 100
"""Request ids of one execution; a client that sends more can cancel by its latest ones."""


def next_state(state: State, event: Event) -> State:
    """The state that follows.

    Raises:
        RuntimeError: The event is not possible in this state, so the interface has a bug.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise RuntimeError(f"{event!r} cannot happen to an execution that is {state}")
    return following


class ExecutionMoved(Exception):
    """Another process had the execution in the meantime, so look for it again."""


class ExecutionOver(Exception):
    """A cancel or the deadline came before the step."""


@dataclass(slots=True, kw_only=True, eq=False)
class HeldExecution(Generic[A]):
    """One execution of one tenant."""

    execution_id: str
    tenant: str = ""
    session: str = ""
    deadline: float
    """By the service's clock."""
    state: State = "starting"
    round: int = 0
    replies: int = 0
    """Results and decisions that its client has given."""
    open_calls: frozenset[int] = frozenset()
    open_approvals: frozenset[int] = frozenset()
    has_session: bool = False
    last: RoundAnswer[A] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the request that is being answered; duplicates wait for its answer."""
    task: asyncio.Task[Paused | Outcome] | None = None
    """The step that runs now."""
    timer: asyncio.TimerHandle | None = None
    request_ids: list[str] = field(default_factory=list)
    """Ids of its requests; a cancel may name any of them."""

    @property
    def session_key(self) -> str:
        """Two tenants' sessions of one name are two."""
        return f"{self.tenant}/{self.session}"

    @property
    def is_known(self) -> bool:
        """Its record has been read, or this process began it."""
        return self.state not in ("unread", "doomed")

    @property
    def is_paused(self) -> bool:
        return self.state == "paused"

    @property
    def is_over(self) -> bool:
        return self.state == "over"

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class RequestIndex(Generic[A]):
    """Executions by the ids of their requests."""

    def __init__(self) -> None:
        self._executions: dict[tuple[str, str], HeldExecution[A]] = {}

    def add(self, execution: HeldExecution[A], request_id: str) -> None:
        """Add a request of an execution; an empty id is none."""
        if not request_id or execution.is_over or request_id in execution.request_ids:
            return
        execution.request_ids.append(request_id)
        self._executions[execution.tenant, request_id] = execution
        if len(execution.request_ids) > MAX_REQUESTS:
            self._drop(execution, execution.request_ids.pop(0))

    def find(self, tenant: str, request_id: str) -> HeldExecution[A] | None:
        return self._executions.get((tenant, request_id))

    def forget(self, execution: HeldExecution[A]) -> None:
        for request_id in execution.request_ids:
            self._drop(execution, request_id)
        execution.request_ids.clear()

    def _drop(self, execution: HeldExecution[A], request_id: str) -> None:
        if self._executions.get((execution.tenant, request_id)) is execution:
            del self._executions[execution.tenant, request_id]


class ExecutionObserver(Generic[A]):
    """Listener of an `ExecutionService`, for counters and limits."""

    def pause_changed(self, execution: HeldExecution[A], change: int) -> None:
        """One more or one less is paused."""

    def ended(self, execution: HeldExecution[A], status: str) -> None:
        """An execution ended here."""

    async def expired(self, execution: HeldExecution[A], outcome: Outcome | None) -> None:
        """The deadline ended a pause; without an outcome, only its record was left."""

    def lost(self, execution: HeldExecution[A]) -> None:
        """Another process took over an execution that was held here."""


class ExecutionService(Generic[A]):
    """The executions that this process holds.

    Args:
        runtime: Runs their programs.
        owner: This process, alone or among others.
        clock: Of the deadlines, in seconds; where others share them, since 1970.
        observer: Told of pauses and ends.
    """

    def __init__(
        self, runtime: Runtime, *, owner: Owner | None = None, clock: Callable[[], float] = time.time,
        observer: ExecutionObserver[A] | None = None,
    ) -> None:  # fmt: skip
        self.requests: RequestIndex[A] = RequestIndex()
        self.is_draining = False
        """Executions that pause are handed over to other processes."""
        self.is_stopping = False
        """No step begins any more."""
        self._runtime = runtime
        self._owner = owner or Owner()
        self._clock = clock
        self._observer = observer or ExecutionObserver()
        self._executions: dict[str, HeldExecution[A]] = {}
        self._ended: BoundedMemory[str, HeldExecution[A]] = BoundedMemory(MAX_REMEMBERED)
        self._running: list[HeldExecution[A]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._expiring: dict[str, asyncio.Task[None]] = {}

    def get(self, execution_id: str) -> HeldExecution[A] | None:
        return self._executions.get(execution_id) or self._ended.get(execution_id)

    def hold(self, execution: HeldExecution[A]) -> None:
        """Keep an execution until its deadline."""
        self._executions[execution.execution_id] = execution
        loop = asyncio.get_running_loop()
        execution.timer = loop.call_later(max(0.0, execution.deadline - self._clock()), self.expire, execution)

    def move(self, execution: HeldExecution[A], event: Event) -> None:
        was_paused = execution.is_paused
        execution.state = next_state(execution.state, event)
        if execution.is_paused != was_paused:
            self._observer.pause_changed(execution, 1 if execution.is_paused else -1)

    def pause(self, execution: HeldExecution[A], step: Paused) -> None:
        """Wait for the client; where the process drains, another one does so."""
        execution.open_calls = frozenset(call.id for call in step.calls)
        execution.open_approvals = frozenset(call.id for call in step.approvals)
        self.move(execution, "pause")
        if self.is_draining:
            spawn(self._hand_over(execution), self._tasks)

    # Steps: each runs a program to its next pause or its end, and returns `None` if it was cancelled.

    async def begin(
        self, execution: HeldExecution[A], start: Callable[[], Step], *, waiting: Waiting = nullcontext,
        turn: AbstractAsyncContextManager[object], is_repeatable: bool = False,
    ) -> Paused | Outcome | None:  # fmt: skip
        """Run the first step of a new execution, in its session and in a turn of its tenant.

        Args:
            execution: Not held yet.
            start: Starts the program when its turn has come.
            waiting: Entered while it waits for its session.
            turn: Entered while it runs.
            is_repeatable: Another process may have the same start.

        Raises:
            TimeoutError: The deadline passed, and the runtime did not end the program.
            ExecutionOver: It was cancelled while it waited.
            ExecutionMoved: Another process began it meanwhile.
        """
        step: Paused | Outcome | None = None
        try:
            seconds = execution.deadline - self._clock() + GRACE_SECONDS
            step = await self._first_step(execution, start, seconds, waiting, turn)
        except UsageError as error:
            if is_repeatable and await self._runtime.executions.recorded(execution.execution_id) is not None:
                self.move(execution, "lose")
                raise ExecutionMoved from error
            raise
        finally:
            if step is None:
                self._leave_session(execution)
        if step is not None:
            self.move(execution, "begin")
        return step

    async def replay(
        self, execution: HeldExecution[A], *, turn: AbstractAsyncContextManager[object]
    ) -> Paused | Outcome:
        """Replay an execution that another process paused, up to its pause.

        Raises:
            ExecutionOver: Its deadline passed, or it was cancelled.
            ExecutionMoved: Another process has ended it meanwhile.
        """
        step: Paused | Outcome | None = None
        try:
            seconds = max(0.0, execution.deadline - self._clock())
            resume = partial(self._runtime.resume, execution.execution_id)
            step = await self._first_step(execution, resume, seconds, nullcontext, turn)
        except TimeoutError as error:
            raise ExecutionOver from error
        except UsageError as error:
            recorded = await self._runtime.executions.recorded(execution.execution_id)
            if recorded is not None and recorded.has_ended:
                raise ExecutionMoved from error
            raise
        finally:
            if step is None:
                self._leave_session(execution)
        if step is None:
            raise ExecutionOver
        return step

    async def resume(
        self, execution: HeldExecution[A], replies: Sequence[Reply], decisions: Mapping[int, Decision], *,
        turn: AbstractAsyncContextManager[object],
    ) -> Paused | Outcome | None:  # fmt: skip
        """Run the next step of an execution that is paused here.

        Raises:
            ExecutionOver: The deadline, or a cancel, was first.
        """
        async with turn:
            if not execution.is_paused:
                raise ExecutionOver
            self.move(execution, "resume")
            reply_count = len(replies) + len(decisions)
            execution.replies += reply_count
            try:
                return await self._step(
                    execution, self._runtime.resume(execution.execution_id, replies, decisions=decisions)
                )
            except HOST_FAILURES:
                # The client may send the same continuation again; the ledger does not write it twice.
                execution.replies -= reply_count
                self.move(execution, "pause")
                if execution.execution_id not in self._runtime.executions.ids:
                    await self.lose(execution)  # it was cut off, and only the ledger knows how far it came
                raise
            except Fenced:
                raise
            except BaseException:
                self.end(execution, "broken")
                raise

    async def _first_step(
        self, execution: HeldExecution[A], start: Callable[[], Step], seconds: float, waiting: Waiting,
        turn: AbstractAsyncContextManager[object],
    ) -> Paused | Outcome | None:  # fmt: skip
        try:
            async with asyncio.timeout(seconds):
                # Before its turn: while it waits for a paused one of its session, it must not hold what that one needs.
                await self._owner.enter_session(execution.session_key, execution.execution_id, waiting)
                execution.has_session = True
                async with turn:
                    if execution.is_over:
                        raise ExecutionOver
                    return await self._step(execution, start())
        except Fenced:
            self.move(execution, "lose")  # before it leaves the session, whose turn belongs to the other process
            raise

    async def _step(self, execution: HeldExecution[A], work: Step) -> Paused | Outcome | None:
        if self.is_stopping:
            # It waited for a turn that a suspended one has left. Whatever ran from here on would be cut off for good.
            work.close()
            raise suspended_error(execution.execution_id)
        task = execution.task = asyncio.ensure_future(work)
        self._running.append(execution)
        try:
            await _wait_until_done(task)
            return None if task.cancelled() else task.result()
        except asyncio.CancelledError:
            # The server is shutting down and will not wait. Other processes can continue from the ledger.
            self._runtime.executions.suspend(execution.execution_id)
            await asyncio.wait([task], timeout=GRACE_SECONDS)
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            self._running.remove(execution)
            execution.task = None

    # Ends.

    def end(self, execution: HeldExecution[A], status: str) -> None:
        """Note the end of an execution; its last answer is remembered for a while."""
        self.move(execution, "end")
        self._observer.ended(execution, status)
        self._leave_session(execution)
        if self._executions.get(execution.execution_id) is execution:
            del self._executions[execution.execution_id]
            for oldest in self._ended.put(execution.execution_id, execution):
                oldest.stop_timer()

    async def cancel(self, execution: HeldExecution[A]) -> bool:
        """End an execution, whatever its state; false if another process has it now."""
        try:
            if not execution.is_known:
                self.move(execution, "cancel")
            if execution.is_paused:
                self.end(execution, "cancelled")
            if execution.state != "starting":
                await self._runtime.executions.cancel(execution.execution_id)
            elif execution.task is not None:
                execution.task.cancel()
            else:
                self.move(execution, "end")  # it waits for its turn, and looks at its state then
        except Fenced:
            await self.lose(execution)
            return False
        return True

    def expire(self, execution: HeldExecution[A]) -> None:
        """End an execution whose deadline has passed, whether it runs or is paused."""
        execution.stop_timer()
        self._forget(execution)
        if execution.is_over:
            return
        was_paused = execution.is_paused
        if was_paused:
            self.end(execution, "timeout")
        execution_id = execution.execution_id
        task = self._expiring[execution_id] = spawn(self._expire_program(execution, was_paused), self._tasks)
        task.add_done_callback(lambda _: self._expiring.pop(execution_id, None))

    async def wait_for_expiry(self, execution_id: str) -> None:
        """Wait until an execution whose deadline has just passed is on record as ended."""
        if (task := self._expiring.get(execution_id)) is not None:
            await asyncio.wait([task])

    async def _expire_program(self, execution: HeldExecution[A], was_paused: bool) -> None:
        outcome: Outcome | None = None
        with suppress(
            Fenced, LedgerFailed
        ):  # another process has it, with the same deadline; or a request finds it later
            outcome = await self._runtime.executions.expire(execution.execution_id)
            if was_paused and outcome is None:  # its guest had to make room for others
                await self._runtime.executions.end_recorded(execution.execution_id, "timeout")
        if was_paused:
            await self._observer.expired(execution, outcome)

    def _forget(self, execution: HeldExecution[A]) -> bool:
        """Whether it was held."""
        if self.get(execution.execution_id) is not execution:
            return False
        self._executions.pop(execution.execution_id, None)
        self._ended.pop(execution.execution_id)
        return True

    def _leave_session(self, execution: HeldExecution[A]) -> None:
        if execution.has_session:
            execution.has_session = False
            self._owner.leave_session(execution.session_key, is_lost=execution.state == "lost")
        self.requests.forget(execution)

    # Other processes.

    async def lose(self, execution: HeldExecution[A]) -> None:
        """Forget an execution that another process has; this one writes nothing more of it."""
        if self._forget(execution) and execution.is_known and not self.is_draining:
            self._observer.lost(execution)
        execution.stop_timer()
        self.move(execution, "lose")
        self._leave_session(execution)
        await self._runtime.executions.abandon(execution.execution_id)

    async def lose_id(self, execution_id: str) -> None:
        """Forget an execution by its id, and end its guest."""
        execution = self.get(execution_id)
        if execution is None or execution.lock.locked():
            await self._runtime.executions.abandon(execution_id)  # the request that waits for it gets `Fenced`
        else:
            await self.lose(execution)

    async def drain(self) -> None:
        """Hand over all executions that are paused, and from now on those that pause."""
        if not self._owner.is_shared:
            return
        self.is_draining = True
        handed_over: list[str] = []
        for execution in tuple(self._executions.values()):
            if execution.is_paused and not execution.lock.locked():
                await self.lose(execution)
                handed_over.append(execution.execution_id)
        await self._owner.release(handed_over)

    async def _hand_over(self, execution: HeldExecution[A]) -> None:
        async with execution.lock:  # until its answer is on the way
            if execution.is_paused:
                await self.lose(execution)
                await self._owner.release([execution.execution_id])

    def suspend(self) -> None:
        """Stop what runs, and begin nothing more; other processes can continue from the ledger."""
        self.is_stopping = True
        for execution in self._running:
            self._runtime.executions.suspend(execution.execution_id)

    async def close(self) -> None:
        """Stop the clocks; what is paused stays in the ledger for the next process."""
        await self.drain()
        for execution in (*self._executions.values(), *self._ended.values()):
            execution.stop_timer()
        if self._tasks:
            # With a limit: one of them may wait for a request that was cut off.
            await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)


async def _wait_until_done(task: asyncio.Future[Any]) -> None:
    """As `asyncio.wait`, for one task and at less cost: to be cancelled meanwhile leaves it alone."""
    if task.done():
        return
    waiter = task.get_loop().create_future()

    def wake(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        task.remove_done_callback(wake)
