"""The executions that this process holds: running, waiting or just ended, with deadlines, sessions and request ids.

All of it is a cache: what is not held is on record and can be replayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

from toolfold.errors import Fenced
from toolfold.interfaces.http.access.rate_limits import Gate, SessionTurns
from toolfold.interfaces.http.execution_state import Event, Gone, Held, Peers, Requests
from toolfold.interfaces.http.files import key_of
from toolfold.interfaces.http.metrics import Metrics
from toolfold.runtime import Runtime

MAX_REMEMBERED = 2000
"""Ended executions whose last answer is held for a repeated continuation; older ones are read from the ledger."""
GRACE_SECONDS = 2.0
"""For the runtime to end a program by its own clock, and so with its output, before we give up on it."""


class Holding:
    """Every execution of this process, by id."""

    def __init__(
        self, runtime: Runtime, *, gate: Gate, metrics: Metrics, peers: Peers, clock: Callable[[], float]
    ) -> None:
        self.requests = Requests()
        self.is_draining = False
        """Executions that pause are handed over to other processes."""
        self._runtime = runtime
        self._gate = gate
        self._metrics = metrics
        self._peers = peers
        self._clock = clock
        self._sessions = SessionTurns()
        self._held: dict[str, Held] = {}
        self._over: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: dict[str, asyncio.Task[None]] = {}
        """Executions whose time ran out just now."""

    def get(self, execution_id: str) -> Held | None:
        """The one with this id, if it is held."""
        return self._held.get(execution_id)

    def hold(self, held: Held) -> None:
        """Keep it until its deadline."""
        self._held[held.execution_id] = held
        loop = asyncio.get_running_loop()
        held.timer = loop.call_later(max(0.0, held.deadline - self._clock()), self.expire, held)

    def move(self, held: Held, event: Event) -> None:
        """Change its state; this is the only place where a tenant's pauses are counted."""
        was_paused = held.is_paused
        held.move(event)
        if held.is_paused != was_paused:
            self._gate.paused(held.tenant, 1 if held.is_paused else -1)

    # sessions

    async def enter_session(self, held: Held, gone: Gone | None = None) -> None:
        """Wait for the turn of its session, here and among the other processes."""
        key = key_of(held.tenant, held.session)
        await self._sessions.enter(key, gone)
        held.has_session = True
        await self._peers.enter_session(key, held.execution_id, gone)

    def leave_session(self, held: Held) -> None:
        """Give back the session, and forget the ids that a cancel would name."""
        if held.has_session:
            held.has_session = False
            key = key_of(held.tenant, held.session)
            self._sessions.leave(key)
            self._peers.leave_session(key, is_lost=held.state == "lost")
        self.requests.forget(held)

    # ends

    def end(self, held: Held, status: str) -> None:
        """It is over; its last answer is remembered for a while."""
        self.move(held, "end")
        self._metrics.add("executions", status=status)
        self._metrics.observe("execution_rounds", held.round)
        if status == "timeout":
            self._metrics.add("timeouts")
        self.leave_session(held)
        if self._held.get(held.execution_id) is held:
            self._over[held.execution_id] = None
        while len(self._over) > MAX_REMEMBERED:
            oldest = next(iter(self._over))
            del self._over[oldest]
            self._held.pop(oldest).stop_timer()

    def expire(self, held: Held) -> None:
        """End an execution whose time is over, whether it runs or waits; its tokens expire with it."""
        held.stop_timer()
        self._forget(held)
        if held.is_over:
            return
        if held.is_paused:
            self.end(held, "timeout")
        ending = self._ending[held.execution_id] = self._spawn(self._end_by_deadline(held.execution_id))
        ending.add_done_callback(lambda _: self._ending.pop(held.execution_id, None))

    async def wait_for_end(self, execution_id: str) -> None:
        """Wait until an execution whose time has just run out is on record as ended."""
        if (ending := self._ending.get(execution_id)) is not None:
            await asyncio.wait([ending])

    async def _end_by_deadline(self, execution_id: str) -> None:
        with suppress(Fenced):  # another process has it, with the same deadline
            await self._runtime.expire(execution_id)

    # other processes

    async def lose(self, held: Held) -> None:
        """Forget an execution that another process has; this one writes nothing more of it."""
        if self._forget(held) and held.is_known and not self.is_draining:
            self._metrics.add("lost")
        held.stop_timer()
        self.move(held, "lose")
        self.leave_session(held)
        await self._runtime.abandon(held.execution_id)

    async def drain(self) -> None:
        """Hand over all executions that are paused, and from now on those that pause."""
        if not self._peers.are_there:
            return
        self.is_draining = True
        handed_over: list[str] = []
        for held in tuple(self._held.values()):
            if held.is_paused and not held.lock.locked():
                await self.lose(held)
                handed_over.append(held.execution_id)
        await self._peers.release(handed_over)

    def hand_over_soon(self, held: Held) -> None:
        """Hand it over as soon as its answer is on the way."""
        self._spawn(self._hand_over(held))

    async def _hand_over(self, held: Held) -> None:
        async with held.lock:
            if held.is_paused:
                await self.lose(held)
                await self._peers.release([held.execution_id])

    async def close(self) -> None:
        """Stop the clocks; what is paused stays in the ledger for the next process."""
        await self.drain()
        for held in self._held.values():
            held.stop_timer()
        if self._tasks:
            # With a limit: one of them may wait for a request that was cut off.
            await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _forget(self, held: Held) -> bool:
        """Whether it was held."""
        if self._held.get(held.execution_id) is not held:
            return False
        del self._held[held.execution_id]
        self._over.pop(held.execution_id, None)
        return True
