"""An engine that plays back events and remembers what it was given. For tests; runs no program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, Self

from toolfold.engines.base import Called, Died, Ended, Event, Order
from toolfold.models import Problem, Reply


class ScriptedEngine:
    """Plays the same events in each run.

    A `Called` waits for its answer before the next event, unless `waits=False`; then
    every event is played at once and only the last one waits for the open answers.
    """

    name = "scripted"
    isolation = "scripted"
    notes: tuple[str, ...] = ()

    def __init__(self, *events: Event, waits: bool = True) -> None:
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
        """Play the script once."""
        self.orders.append(order)
        yield ScriptedRun(self._events, self.answers, waits=self._waits)

    def has_session(self, session: str) -> bool:
        """Never: a script has no names."""
        return False

    def end_session(self, session: str) -> None:
        """There is none to end."""


class ScriptedRun:
    """One play of the script."""

    def __init__(self, events: tuple[Event, ...], answers: list[Reply], *, waits: bool) -> None:
        self._events = events
        self._answers = answers
        self._waits = waits
        self._open: set[int] = set()
        self._stopped: Ended | None = None
        self._is_over = False
        self._changed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in self._events:
            if self._waits or isinstance(event, Ended | Died):
                await self._all_answered()
            if self._stopped is not None:
                break
            if isinstance(event, Called):
                self._open.add(event.call.id)
            self._is_over = isinstance(event, Ended | Died)
            yield event
        if not self._is_over:
            self._is_over = True
            yield self._stopped or Died("the script has no last event")

    def answer(self, reply: Reply) -> None:
        """Keep the reply, and play on if it was waited for."""
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
        """Skip to an `Ended` with this status."""
        if self._stopped is None and not self._is_over:
            self._stopped = Ended(status=status, problem=problem)
        self._changed.set()

    async def _all_answered(self) -> None:
        while self._open and self._stopped is None:
            self._changed.clear()
            await self._changed.wait()
