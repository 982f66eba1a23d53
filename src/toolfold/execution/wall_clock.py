"""Wall clock of one execution, which stands still in pauses and while a person is asked; and its timer."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# ----------------------------------------------------------------------------------------------------
# One timer of the event loop for the clocks of all executions of a runtime.
#
# A timer of its own for each program is made and cancelled again before most of them have run for a millisecond, and
# costs as much as their whole record. The programs of a runtime mostly have the same limit, so the one that began first
# is due first: its timer stays, and whoever comes later is only written down.


class Alarm:
    """Calls functions at their times, by `time.perf_counter`; each key has one of them."""

    def __init__(self) -> None:
        self._due: dict[object, tuple[float, Callable[[], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._loop: asyncio.AbstractEventLoop | None = None

    def set(self, key: object, at: float, ring: Callable[[], None]) -> None:
        """Call `ring` then, from the loop that runs now."""
        self._due[key] = at, ring
        # A runtime may be entered again in another loop: what is left of the first never goes off there.
        if at < self._timer_at or asyncio.get_running_loop() is not self._loop:
            self._arm(at)

    def clear(self, key: object) -> None:
        """Do not call it. The timer stays: it finds nothing to do, or the next one."""
        self._due.pop(key, None)

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop = asyncio.get_running_loop()
        self._timer_at = at
        self._timer = self._loop.call_later(max(0.0, at - time.perf_counter()), self._go_off)

    def _go_off(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = time.perf_counter()
        for key, (at, ring) in tuple(self._due.items()):
            if at <= now:
                del self._due[key]
                # In its own turn: one that raises must not keep the others from theirs.
                asyncio.get_running_loop().call_soon(ring)
        if self._due:
            self._arm(min(at for at, _ in self._due.values()))


TICK_SECONDS: Final = 2.0


class WallClock:
    """Counts down while it is started and nobody makes it stand still.

    Args:
        seconds: How long until it rings.
        alarm: Shared with other clocks.
        ring: Called then, from the event loop.
        tick: Called every few seconds while it counts.
    """

    def __init__(
        self, seconds: float, alarm: Alarm, ring: Callable[[], None], tick: Callable[[], None] | None = None
    ) -> None:
        self._seconds = seconds
        self._alarm = alarm
        self._ring = ring
        self._tick = tick
        self._is_started = False
        self._standing = 0
        self._counts_since: float | None = None

    @property
    def seconds_left(self) -> float:
        """Less than none if it has not rung yet although it should have."""
        counted = time.perf_counter() - self._counts_since if self._counts_since is not None else 0.0
        return self._seconds - counted

    def put_back(self, seconds: float) -> None:
        """So much is left of a clock that ran in another process; while it does not count."""
        self._seconds = max(0.001, seconds)

    def start(self) -> None:
        self._is_started = True
        self._count()

    def stop(self) -> None:
        self._is_started = False
        self._count()

    @contextmanager
    def standing(self) -> Iterator[None]:
        """It stands still while anybody has this entered."""
        self._standing += 1
        self._count()
        try:
            yield
        finally:
            self._standing -= 1
            self._count()

    def _count(self) -> None:
        """Have it count or not, as it should by now."""
        should_count = self._is_started and not self._standing
        if should_count and self._counts_since is None:
            self._counts_since = now = time.perf_counter()
            self._set_alarm(now, now + self._seconds)
        elif not should_count and self._counts_since is not None:
            self._seconds -= time.perf_counter() - self._counts_since
            self._counts_since = None
            self._alarm.clear(self)

    def _set_alarm(self, now: float, end: float) -> None:
        is_far = self._tick is not None and end > now + TICK_SECONDS
        self._alarm.set(self, now + TICK_SECONDS if is_far else end, self._due)

    def _due(self) -> None:
        since, now = self._counts_since, time.perf_counter()
        if since is None:  # it was stopped between its time and its turn
            return
        end = since + self._seconds
        if now >= end:
            self._ring()
            return
        if self._tick is not None:
            self._tick()
        self._set_alarm(now, end)
