"""Clock, timers and replay tape of a program on Monty. Reads the clock, never waits."""

from __future__ import annotations

import datetime as dt
import heapq
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from toolfold.engines.base import ReplayTape
from toolfold.engines.monty.values import Timer

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


class MontyClock:
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
        self._held_at = self._held_at or time.monotonic()

    def release(self, counted_seconds: float = 0.0) -> None:
        if self._held_at is not None:
            lost_seconds = time.monotonic() - self._held_at - counted_seconds
            self._lost_seconds, self._held_at = self._lost_seconds + lost_seconds, None


class Timers:
    """Sleeps and deadlines, by the program's clock."""

    def __init__(self, clock: MontyClock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, str]] = []
        """When, Monty's call id, and the exception that then settles it; none for a sleep."""

    @property
    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def set(self, seconds: float, call_id: int, error: str = "") -> None:
        heapq.heappush(self._heap, (self._clock.now() + max(0.0, seconds), call_id, error))

    def due(self) -> tuple[int, str] | None:
        """The call and the exception of one that has run out."""
        if not self._heap or self._heap[0][0] > self._clock.now():
            return None
        _, call_id, error = heapq.heappop(self._heap)
        return call_id, error

    def take(self, call_id: int) -> str:
        """The exception of the first one of a call, which runs out now whatever the clock says."""
        first = min((timer for timer in self._heap if timer[1] == call_id), default=None)
        if first is None:
            return ""
        self._heap.remove(first)
        heapq.heapify(self._heap)
        return first[2]

    def remaining(self) -> list[Timer]:
        now = self._clock.now()
        return [Timer(max(0.0, when - now), call_id, error) for when, call_id, error in self._heap]


# ----------------------------------------------------------------------------------------------------
# What makes a program on Monty repeatable: when it woke, what woke it, and what its clock said. Knows no thread.
#
# One wake is a few numbers: `n` for that many replies, `-2 - id` for a timer of Monty's call `id`, and -1 at its end.
# A pause in the middle of a wake divides it: what came before the pause is on record before it.

MAX_ENTRIES: Final = 100_000
"""A program that wants more is let go on, but cannot be replayed."""

_TICK_SECONDS: Final = 1e-6
_END: Final = -1
_FIRST_TIMER: Final = -2


class MontyTape:
    """Records, and plays what is on record first. Without a tape it does neither."""

    def __init__(self, tape: ReplayTape | None, steady: float | None = None) -> None:
        self.is_on = tape is not None
        self._steady = steady
        """A time of the program's own, which readings and sleeps advance; `None` where it is the real one."""
        old = tape or ReplayTape()
        self._old_wakes, self._old_clocks = deque(old.wakes), deque(old.clocks)
        self._entries = len(old.wakes) + len(old.clocks)
        self._is_muted = False
        self._new_wakes: list[int] = []
        self._new_clocks: list[float] = []
        self._is_spoilt = False

    @property
    def has_clock(self) -> bool:
        """Whether the program reads the time here."""
        return self.is_on or self._steady is not None

    @property
    def is_playing(self) -> bool:
        """Whether the next wake is on record."""
        return bool(self._old_wakes)

    @property
    def has_news(self) -> bool:
        return bool(self._new_wakes or self._new_clocks) and not self._is_spoilt

    def next_parts(self) -> Iterator[int]:
        """What the next wake on record is made of; nothing is recorded in between."""
        self._is_muted = True
        while self._old_wakes and self._old_wakes[0] != _END:
            yield self._old_wakes.popleft()
        # Without its end it is not over: the rest of it happens now.
        self._is_muted = bool(self._old_wakes)

    def replied(self) -> None:
        if self._is_muted or not self.is_on:
            return
        if self._new_wakes and self._new_wakes[-1] > 0:
            self._new_wakes[-1] += 1
        else:
            self._new_wakes.append(1)

    def timed(self, call_id: int) -> None:
        if not self._is_muted and self.is_on:
            self._new_wakes.append(_FIRST_TIMER - call_id)

    def woke(self) -> None:
        """The program goes on with all that has come."""
        if self._old_wakes:
            self._old_wakes.popleft()
        elif self.is_on:
            self._new_wakes.append(_END)
        self._is_muted = False

    def clock(self) -> float:
        """Seconds since 1970: now, or as they were then."""
        if self._steady is not None:
            self.slept(_TICK_SECONDS)
            return self._steady
        if self._old_clocks:
            return self._old_clocks.popleft()
        now = time.time()
        if len(self._new_clocks) <= MAX_ENTRIES:
            self._new_clocks.append(now)
        return now

    def slept(self, seconds: float) -> None:
        """The program's own time advances by a sleep."""
        if self._steady is not None:
            self._steady += max(0.0, seconds)

    def new(self) -> ReplayTape | None:
        """Tape entries that are not recorded yet; `None` if there are none."""
        if not self.is_on or self._is_spoilt or not self.has_news:
            return None
        self._entries += len(self._new_wakes) + len(self._new_clocks)
        self._is_spoilt = self._entries > MAX_ENTRIES
        tape = (
            ReplayTape(is_spoilt=True)
            if self._is_spoilt
            else ReplayTape(tuple(self._new_wakes), tuple(self._new_clocks))
        )
        self._new_wakes.clear()
        self._new_clocks.clear()
        return tape


def timer_of(part: int) -> int | None:
    """Monty's call id in a part of a wake; `None` where it is a number of replies."""
    return _FIRST_TIMER - part if part <= _FIRST_TIMER else None
