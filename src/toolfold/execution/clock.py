"""The wall clock of one execution: paused time does not count, nor time in which a person is asked."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


TICK_SECONDS: Final = 2.0


class Clock:
    """Counts down while it is started and nobody makes it stand still.

    Args:
        seconds: How long until it rings.
        ring: Called then, from the event loop.
        tick: Called every few seconds while it counts.
    """

    def __init__(self, seconds: float, ring: Callable[[], None], tick: Callable[[], None] | None = None) -> None:
        self._seconds = seconds
        self._ring = ring
        self._tick = tick
        self._is_started = False
        self._standing = 0
        self._counts_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

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
            self._counts_since = time.perf_counter()
            # Not before the loop has its next turn: many programs have ended by then, and a timer costs twice as much.
            asyncio.get_running_loop().call_soon(self._arm)
        elif not should_count and self._counts_since is not None:
            self._seconds = self.seconds_left
            self._counts_since = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _arm(self) -> None:
        if self._counts_since is not None and self._timer is None:
            left, ring = self.seconds_left, self._ring
            if self._tick is not None and left > TICK_SECONDS:
                left, ring = TICK_SECONDS, self._ticked
            self._timer = asyncio.get_running_loop().call_later(left, ring)

    def _ticked(self) -> None:
        assert self._tick is not None
        self._tick()
        self._timer = None
        self._arm()
