"""A pause, as a guest sees it: its timers stand still at once, and soon all of its threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from toolfold.protocol.codec import HOLD_FRAME, release_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.engines.process.guest import Guest

FREEZE_AFTER_SECONDS: Final = 0.5
"""How long the threads of a paused program may run on; most callers have answered by then."""
LOOK_AFTER_SECONDS: Final = 0.02
"""When to look how large it is: programs that pause faster than they are weighed could hold all memory."""
LARGE_BYTES: Final = 64 * 1024 * 1024
"""What has more in memory is frozen, and so weighed, at once; a guest with pandas always has."""


class Hold:
    """Holds and releases one guest.

    Args:
        guest: The guest.
        write: Sends it a message.
        write_soon: Sends it one together with the next.
        on_frozen: Told how many bytes it takes once it stands still.
    """

    def __init__(
        self, guest: Guest, write: Callable[[bytes], None], write_soon: Callable[[bytes], None],
        on_frozen: Callable[[int], None] | None,
    ) -> None:  # fmt: skip
        self._guest = guest
        self._write = write
        self._write_soon = write_soon
        self._on_frozen = on_frozen
        self._timer: asyncio.TimerHandle | None = None

    def hold(self) -> None:
        """The execution pauses. Again, if it is held already: each hold is released on its own."""
        self._write(HOLD_FRAME)
        if self._timer is None:
            look_after = min(LOOK_AFTER_SECONDS, FREEZE_AFTER_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(look_after, self._look)

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        rest = FREEZE_AFTER_SECONDS - LOOK_AFTER_SECONDS
        if rest <= 0 or self._guest.own_bytes() > LARGE_BYTES:
            self._freeze()
        else:
            self._timer = asyncio.get_running_loop().call_later(rest, self._freeze)

    def _freeze(self) -> None:
        # SIGSTOP, because a program with threads goes on working while its main thread waits for the host.
        self._guest.freeze()
        if self._on_frozen is not None:
            self._guest.weigh(self._on_frozen)
