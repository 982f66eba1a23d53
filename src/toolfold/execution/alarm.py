"""One timer of the event loop for the clocks of all executions of a runtime.

A timer of its own for each program is made and cancelled again before most of them have run for a millisecond, and
costs as much as their whole record. The programs of a runtime mostly have the same limit, so the one that began first
is due first: its timer stays, and whoever comes later is only written down.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
