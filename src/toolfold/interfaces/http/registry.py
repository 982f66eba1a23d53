"""Registry of the executions in this process, with their deadlines, sessions and request ids.

All of it is a cache: what is not held is on record and can be replayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

from toolfold.errors import Fenced
from toolfold.interfaces.http.access.rate_limits import Gate, SessionTurns
from toolfold.interfaces.http.execution_state import ApiExecution, Event, Hangup, Peers, RequestIndex
from toolfold.interfaces.http.files import key_of
from toolfold.interfaces.http.metrics import Metrics
from toolfold.runtime import Runtime

MAX_REMEMBERED = 2000
"""Ended executions whose last answer is held for a repeated continuation; older ones are read from the ledger."""
GRACE_SECONDS = 2.0
"""For the runtime to end a program by its own clock, and so with its output, before we give up on it."""


class ExecutionRegistry:
    """Every execution of this process, by id."""

    def __init__(
        self, runtime: Runtime, *, gate: Gate, metrics: Metrics, peers: Peers, clock: Callable[[], float]
    ) -> None:
        self.requests = RequestIndex()
        self.is_draining = False
        """Executions that pause are handed over to other processes."""
        self._runtime = runtime
        self._gate = gate
        self._metrics = metrics
        self._peers = peers
        self._clock = clock
        self._sessions = SessionTurns()
        self._executions: dict[str, ApiExecution] = {}
        self._ended_ids: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: dict[str, asyncio.Task[None]] = {}
        """Executions whose time ran out just now."""

    def get(self, execution_id: str) -> ApiExecution | None:
        """The one with this id, if it is held."""
        return self._executions.get(execution_id)

    def hold(self, execution: ApiExecution) -> None:
        """Keep it until its deadline."""
        self._executions[execution.execution_id] = execution
        loop = asyncio.get_running_loop()
        execution.timer = loop.call_later(max(0.0, execution.deadline - self._clock()), self.expire, execution)

    def move(self, execution: ApiExecution, event: Event) -> None:
        """Change its state; this is the only place where a tenant's pauses are counted."""
        was_paused = execution.is_paused
        execution.move(event)
        if execution.is_paused != was_paused:
            self._gate.paused(execution.tenant, 1 if execution.is_paused else -1)

    # sessions

    async def enter_session(self, execution: ApiExecution, hangup: Hangup | None = None) -> None:
        """Wait for the turn of its session, here and among the other processes."""
        key = key_of(execution.tenant, execution.session)
        await self._sessions.enter(key, hangup)
        execution.has_session = True
        await self._peers.enter_session(key, execution.execution_id, hangup)

    def leave_session(self, execution: ApiExecution) -> None:
        """Give back the session, and forget the ids that a cancel would name."""
        if execution.has_session:
            execution.has_session = False
            key = key_of(execution.tenant, execution.session)
            self._sessions.leave(key)
            self._peers.leave_session(key, is_lost=execution.state == "lost")
        self.requests.forget(execution)

    # ends

    def end(self, execution: ApiExecution, status: str) -> None:
        """It is over; its last answer is remembered for a while."""
        self.move(execution, "end")
        self._metrics.add("executions", status=status)
        self._metrics.observe("execution_rounds", execution.round)
        if status == "timeout":
            self._metrics.add("timeouts")
        self.leave_session(execution)
        if self._executions.get(execution.execution_id) is execution:
            self._ended_ids[execution.execution_id] = None
        while len(self._ended_ids) > MAX_REMEMBERED:
            oldest = next(iter(self._ended_ids))
            del self._ended_ids[oldest]
            self._executions.pop(oldest).stop_timer()

    def expire(self, execution: ApiExecution) -> None:
        """End an execution whose time is over, whether it runs or waits; its tokens expire with it."""
        execution.stop_timer()
        self._forget(execution)
        if execution.is_over:
            return
        if execution.is_paused:
            self.end(execution, "timeout")
        ending = self._ending[execution.execution_id] = self._spawn(self._end_by_deadline(execution.execution_id))
        ending.add_done_callback(lambda _: self._ending.pop(execution.execution_id, None))

    async def wait_for_end(self, execution_id: str) -> None:
        """Wait until an execution whose time has just run out is on record as ended."""
        if (ending := self._ending.get(execution_id)) is not None:
            await asyncio.wait([ending])

    async def _end_by_deadline(self, execution_id: str) -> None:
        with suppress(Fenced):  # another process has it, with the same deadline
            await self._runtime.executions.expire(execution_id)

    # other processes

    async def lose(self, execution: ApiExecution) -> None:
        """Forget an execution that another process has; this one writes nothing more of it."""
        if self._forget(execution) and execution.is_known and not self.is_draining:
            self._metrics.add("lost")
        execution.stop_timer()
        self.move(execution, "lose")
        self.leave_session(execution)
        await self._runtime.executions.abandon(execution.execution_id)

    async def drain(self) -> None:
        """Hand over all executions that are paused, and from now on those that pause."""
        if not self._peers.are_there:
            return
        self.is_draining = True
        handed_over: list[str] = []
        for execution in tuple(self._executions.values()):
            if execution.is_paused and not execution.lock.locked():
                await self.lose(execution)
                handed_over.append(execution.execution_id)
        await self._peers.release(handed_over)

    def hand_over_soon(self, execution: ApiExecution) -> None:
        """Hand it over as soon as its answer is on the way."""
        self._spawn(self._hand_over(execution))

    async def _hand_over(self, execution: ApiExecution) -> None:
        async with execution.lock:
            if execution.is_paused:
                await self.lose(execution)
                await self._peers.release([execution.execution_id])

    async def close(self) -> None:
        """Stop the clocks; what is paused stays in the ledger for the next process."""
        await self.drain()
        for execution in self._executions.values():
            execution.stop_timer()
        if self._tasks:
            # With a limit: one of them may wait for a request that was cut off.
            await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _forget(self, execution: ApiExecution) -> bool:
        """Whether it was held."""
        if self._executions.get(execution.execution_id) is not execution:
            return False
        del self._executions[execution.execution_id]
        self._ended_ids.pop(execution.execution_id, None)
        return True
