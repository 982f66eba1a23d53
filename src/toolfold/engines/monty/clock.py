"""The time of a program on Monty, and what is to happen in it. Reads the clock, never waits."""

from __future__ import annotations

import datetime as dt
import heapq
import time
from typing import Final

from toolfold.engines.monty.state import Timer

CLOCKS: Final = frozenset({"time.time", "datetime.now", "date.today"})
"""Functions of the program's that tell the time."""


def time_for(function: str, zone: dt.tzinfo | None, seconds: float) -> float | dt.datetime | dt.date:
    """What one of the `CLOCKS` says at so many seconds since 1970; the program's own zone is UTC."""
    if function == "time.time":
        return seconds
    now = dt.datetime.fromtimestamp(seconds, dt.UTC)
    if function == "date.today":
        return now.date()
    return now.replace(tzinfo=None) if zone is None else now.astimezone(zone)


class Clock:
    """The program's time, which stands still while its execution is paused."""

    def __init__(self) -> None:
        self._lost_seconds = 0.0
        self._held_at: float | None = None

    def now(self) -> float:
        """Seconds since some moment, without the pauses."""
        at = self._held_at
        return (time.monotonic() if at is None else at) - self._lost_seconds

    def seconds_to(self, moment: float | None) -> float | None:
        """How long to wait for a moment; `None` for ever, as long as the clock stands still."""
        return None if moment is None or self._held_at is not None else max(0.0, moment - self.now())

    def hold(self) -> None:
        """Stand still."""
        self._held_at = self._held_at or time.monotonic()

    def release(self, counted_seconds: float = 0.0) -> None:
        """Go on, so much later than it stood."""
        if self._held_at is not None:
            lost_seconds = time.monotonic() - self._held_at - counted_seconds
            self._lost_seconds, self._held_at = self._lost_seconds + lost_seconds, None


class Timers:
    """Sleeps and deadlines, by the program's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, str]] = []
        """When, Monty's call id, and the exception that then settles it; none for a sleep."""

    @property
    def next(self) -> float | None:
        """When the first of them runs out."""
        return self._heap[0][0] if self._heap else None

    def set(self, seconds: float, call_id: int, error: str = "") -> None:
        """Settle a call after a while."""
        heapq.heappush(self._heap, (self._clock.now() + max(0.0, seconds), call_id, error))

    def due(self) -> tuple[int, str] | None:
        """The call and the exception of one that has run out."""
        if not self._heap or self._heap[0][0] > self._clock.now():
            return None
        _, call_id, error = heapq.heappop(self._heap)
        return call_id, error

    def take(self, call_id: int) -> str:
        """The exception of the first one of a call, which runs out now whatever the clock says."""
        found = min((timer for timer in self._heap if timer[1] == call_id), default=None)
        if found is None:
            return ""
        self._heap.remove(found)
        heapq.heapify(self._heap)
        return found[2]

    def left(self) -> list[Timer]:
        """All of them, for another clock."""
        now = self._clock.now()
        return [Timer(max(0.0, when - now), call_id, error) for when, call_id, error in self._heap]
