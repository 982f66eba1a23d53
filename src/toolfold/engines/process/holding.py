"""A pause, as a guest sees it: its timers stand still at once, and soon all of its threads."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from toolfold.protocol.codec import HOLD_FRAME, release_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.engines.process.guest import Guest

FREEZE_AFTER_SECONDS: Final = 0.5
"""How long the threads of a paused program may run on; most callers have answered by then."""
LOOK_AFTER_SECONDS: Final = 0.015
"""When to look how large it is: programs that pause faster than they are weighed could hold all memory."""
LARGE_BYTES: Final = 64 * 1024 * 1024
"""What has more in memory is frozen, and so weighed, at once; a guest with pandas always has."""


TICK_SECONDS: Final = 0.01


class Holds:
    """All guests of a pool that are held, and one timer for them: most go on before theirs would have come."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # In the order in which they are due, with the time at which they were held.
        self._unseen: dict[Hold, float] = {}
        self._small: dict[Hold, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, hold: Hold) -> None:
        """Look how large its guest is soon, and freeze it then or later."""
        self._unseen[hold] = self._loop.time()
        if self._timer is None:
            self._set_timer()

    def remove(self, hold: Hold) -> None:
        """It goes on, or is frozen."""
        self._unseen.pop(hold, None)
        self._small.pop(hold, None)

    def _set_timer(self) -> None:
        self._timer = self._loop.call_later(min(TICK_SECONDS, FREEZE_AFTER_SECONDS), self._tick)

    def _tick(self) -> None:
        self._timer, now = None, self._loop.time()
        for hold in _due(self._unseen, now - min(LOOK_AFTER_SECONDS, FREEZE_AFTER_SECONDS)):
            self._small[hold] = self._unseen.pop(hold)
            if hold.is_large():
                self._freeze(hold)
        for hold in _due(self._small, now - FREEZE_AFTER_SECONDS):
            self._freeze(hold)
        if self._unseen or self._small:
            self._set_timer()

    def _freeze(self, hold: Hold) -> None:
        self.remove(hold)
        hold.freeze()


def _due(held: dict[Hold, float], until: float) -> list[Hold]:
    return [hold for hold, _ in takewhile(lambda one: one[1] <= until, held.items())]


class Hold:
    """Holds and releases one guest.

    Args:
        guest: The guest.
        write: Sends it a message.
        write_soon: Sends it one together with the next.
        on_frozen: Told how many bytes it takes once it stands still.
        holds: The others of its pool.
    """

    def __init__(
        self, guest: Guest, write: Callable[[bytes], None], write_soon: Callable[[bytes], None],
        on_frozen: Callable[[int], None] | None, holds: Holds,
    ) -> None:  # fmt: skip
        self._guest = guest
        self._write = write
        self._write_soon = write_soon
        self._on_frozen = on_frozen
        self._holds = holds
        self._is_held = False

    def hold(self) -> None:
        """The execution pauses. Again, if it is held already: each hold is released on its own."""
        self._write(HOLD_FRAME)
        if not self._is_held:
            self._is_held = True
            self._holds.add(self)

    def release(self, counted_seconds: float = 0.0) -> None:
        """The execution goes on; so much of its pause counts for its timers."""
        # First: a frozen guest reads nothing.
        self.thaw()
        # What it waited for comes in the same moment.
        self._write_soon(release_frame(counted_seconds))

    def thaw(self) -> None:
        """Let its threads run again. Harmless when they do."""
        self.cancel()
        self._guest.thaw()

    def cancel(self) -> None:
        """Freeze it no more; one that is frozen stays so."""
        if self._is_held:
            self._is_held = False
            self._holds.remove(self)

    def is_large(self) -> bool:
        """Whether it must be weighed at once."""
        return self._guest.own_bytes() > LARGE_BYTES

    def freeze(self) -> None:
        """Have all of its threads stand still."""
        # SIGSTOP, because a program with threads goes on working while its main thread waits for the host.
        self._guest.freeze()
        if self._on_frozen is not None:
            self._guest.weigh(self._on_frozen)
