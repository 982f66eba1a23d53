"""Scripted engine for tests: plays back events, records its orders and answers, and runs no program."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, Self

from toolfold.engines.base import Called, Capabilities, Died, Ended, Event, Order, Waiting
from toolfold.errors import UsageError
from toolfold.models import Problem, Reply


class ScriptedEngine:
    """Plays the same events in each run.

    A `Called` waits for its answer before the next event, unless `waits=False`; then
    every event is played at once and only the last one waits for the open answers.
    """

    name = "scripted"
    isolation = "scripted"
    notes: tuple[str, ...] = ()
    capabilities = Capabilities()

    def __init__(self, *events: Event, waits: bool = True) -> None:
        for event in events:
            if isinstance(event, Ended):
                _check_problem(event.problem)
        self._events = events
        self._waits = waits
        self.orders: list[Order] = []
        """What each run was opened with."""
        self.answers: list[Reply] = []
        """Every reply, in the order in which they came."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    @asynccontextmanager
    async def open(self, order: Order) -> AsyncIterator[ScriptedRun]:
        self.orders.append(order)
        yield ScriptedRun(self._events, self.answers, waits=self._waits)

    def has_session(self, session: str) -> bool:
        return False

    def end_session(self, session: str) -> None:
        """There is none to end."""


def _check_problem(problem: object) -> None:
    """Tests are often not type checked, and a text would fail deep inside the run."""
    if problem is not None and not isinstance(problem, Problem):
        raise UsageError(f"problem={problem!r} of Ended is not a Problem; write Problem(kind='exception', message=...)")


class ScriptedRun:
    """One play of the script."""

    def __init__(self, events: tuple[Event, ...], answers: list[Reply], *, waits: bool) -> None:
        self._remaining_events = deque(events)
        self._answers = answers
        self._waits = waits
        self._open: set[int] = set()
        self._stopped: Ended | None = None
        self._is_over = False
        self._nudges: deque[Waiting] = deque()
        self._changed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[Event]:
        # An event leaves the script only when it is played: after a pause the run is iterated again.
        while self._remaining_events:
            event = self._remaining_events[0]
            if self._waits or isinstance(event, Ended | Died):
                async for nudge in self._until_answered():
                    yield nudge
            if self._stopped is not None:
                break
            self._remaining_events.popleft()
            if isinstance(event, Called):
                self._open.update(call.id for call in event.calls)
            self._is_over = isinstance(event, Ended | Died)
            yield event
        if not self._is_over:
            self._is_over = True
            yield self._stopped or Died("the script has no last event")

    def answer(self, reply: Reply) -> None:
        if self._is_over:
            return
        self._answers.append(reply)
        self._open.discard(reply.call_id)
        self._changed.set()

    def hold(self) -> None:
        """A script has no timers."""

    def release(self) -> None:
        """A script has no timers."""

    def stop(self, status: Literal["timeout", "cancelled", "limit"], problem: Problem | None = None) -> None:
        if self._stopped is None and not self._is_over:
            self._stopped = Ended(status=status, problem=problem)
        self._changed.set()

    def nudge(self, event: Waiting) -> None:
        if not self._is_over:
            self._nudges.append(event)
            self._changed.set()

    async def _until_answered(self) -> AsyncIterator[Waiting]:
        """What the host itself has to say until every open call is answered."""
        while self._stopped is None:
            while self._nudges:
                yield self._nudges.popleft()
            if not self._open:
                return
            self._changed.clear()
            await self._changed.wait()
