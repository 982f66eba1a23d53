"""A program is made ready in the guest that it will get, while the host checks it.

To compile a program and to fill its names takes a guest about as long as the check takes the host. Nothing of it
runs before the start. A guest that was told of a program is for no other: if that does not come, the guest ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolfold.engines.process.frames import program_frame

if TYPE_CHECKING:
    from toolfold.engines.process.guest import Guest
    from toolfold.engines.process.pool import Pool
    from toolfold.models import Limits, ToolSpec

MOST_TOLD_BYTES: Final = 64 * 1024
"""Fits into the buffer of an idle socket; and what takes longer to check gains little from it."""


@dataclass(slots=True)
class _Told:
    """A guest, taken from its pool, and the program that it was told of."""

    pool: Pool
    guest: Guest
    text: str
    tools: Sequence[ToolSpec]


class Forewarning:
    """At most one guest that knows the program which is being checked. It is a `Forewarned` for the runtime."""

    def __init__(self) -> None:
        self.pool: Pool | None = None
        """Of the last program: the next one probably needs the same libraries."""
        self._told: _Told | None = None

    def expect(self, text: str, tools: Sequence[ToolSpec], limits: Limits) -> None:
        """A program is being checked: a guest makes it ready meanwhile, if there is a core with nothing else to do."""
        pool = self.pool
        # With another program on its way the cores have better things to do.
        if self._told is not None or pool is None or pool.zygote.closed or not pool.is_quiet:
            return
        if len(text) > MOST_TOLD_BYTES or not pool.is_usual(limits):
            return
        frame = program_frame(text, tools)
        if len(frame) <= MOST_TOLD_BYTES:
            guest = pool.take(limits)
            if _tell(guest, frame):
                self._told = _Told(pool, guest, text, tools)
            else:
                pool.give_back(guest)

    def forget(self) -> None:
        """The program that was expected does not come; one that is expected besides it loses time."""
        told, self._told = self._told, None
        if told is not None:
            told.pool.give_back(told.guest)

    def disown(self) -> None:
        """In a forked child: the guest is the parent's."""
        self.pool = self._told = None

    def take(self, pool: Pool, limits: Limits, text: str, tools: Sequence[ToolSpec]) -> Guest | None:
        """The guest that has made this program ready, if there is one; a guest that was told of another ends."""
        told = self._told
        if told is None:
            return None
        # The grant by identity: to compare thousands of tools takes longer than to begin anew.
        if told.pool is pool and told.text == text and told.tools is tools and pool.is_usual(limits):
            self._told = None
            return told.guest
        self.forget()
        return None


def _tell(guest: Guest, frame: bytes) -> bool:
    """Wake it up, on another core than ours, and hand it all of the program; false if it cannot take that."""
    # Before it is woken: here it would wait until the check is over, which is what this is to avoid.
    guest.place.stay_away()
    try:
        return guest.sock.send(frame) == len(frame)
    except OSError:  # it has just died, or its buffer is full
        return False
