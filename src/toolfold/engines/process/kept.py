"""Guests that a session keeps between its programs, with their names and files.

A session is one domain of trust: what one of its programs leaves running can speak in the name
of the next. Nothing of it reaches another session, whose guest is another process.

What a program leaves running stands still until the next one. There is an end to how many guests wait
so, and to the memory that they take: then the one that was used longest ago goes, and its names with it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolfold.engines.process.guest import Guest
    from toolfold.engines.process.pool import Pool

FREEZE_AFTER_SECONDS: Final = 0.5


@dataclass(slots=True)
class _Kept:
    pool: Pool
    guest: Guest
    files: frozenset[str]
    """Names of those that it has."""
    timer: asyncio.TimerHandle
    held_bytes: int = 0
    """Known once it stands still."""


class KeptGuests:
    """Idle guests by session. A guest in use is not in here, so it cannot be used twice."""

    def __init__(self, max_guests: int, max_bytes: int) -> None:
        self._max_guests = max_guests
        self._max_bytes = max_bytes
        self._guests: dict[str, _Kept] = {}
        """The one that was used longest ago first."""

    def take(self, session: str) -> tuple[Pool, Guest, frozenset[str]] | None:
        """The session's guest, if it has one that is still alive, and the names of its files."""
        # Out of the table before it is used: two programs of one session must not share a guest at the same time.
        kept = self._guests.pop(session, None)
        if kept is None:
            return None
        kept.timer.cancel()
        kept.pool.rouse(kept.guest)
        if kept.guest.is_gone():
            kept.pool.give_back(kept.guest)  # it went with its zygote, or something outside killed it
            return None
        kept.guest.thaw()
        return kept.pool, kept.guest, kept.files

    def keep(self, session: str, pool: Pool, guest: Guest, files: frozenset[str]) -> None:
        """A program ended; its guest waits for the next."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(FREEZE_AFTER_SECONDS, self._freeze, session)
        # Last in the table: it was used most recently, and goes last when there are too many.
        pool.rest(guest)
        self._guests[session] = _Kept(pool, guest, files, timer)
        if len(self._guests) > self._max_guests:
            self.drop(next(iter(self._guests)))

    def has(self, session: str) -> bool:
        """Whether the session's names are still there."""
        kept = self._guests.get(session)
        return kept is not None and not kept.guest.is_gone()

    def drop(self, session: str) -> None:
        """End the session's guest; harmless if there is none."""
        kept = self._guests.pop(session, None)
        if kept is not None:
            kept.timer.cancel()
            kept.pool.give_back(kept.guest)

    def drop_all(self) -> None:
        """End them all."""
        for session in tuple(self._guests):
            self.drop(session)

    def _freeze(self, session: str) -> None:
        kept = self._guests[session]
        kept.guest.freeze()
        kept.guest.weigh(lambda size: self._weighed(session, kept, size))

    def _weighed(self, session: str, kept: _Kept, size: int) -> None:
        if self._guests.get(session) is not kept:
            # It serves the next program, or is gone.
            return
        kept.held_bytes = size
        # Only what stands still is measured, so the sum is a lower bound; a guest that runs is not idle.
        left = sum(one.held_bytes for one in self._guests.values()) - self._max_bytes
        for name, one in tuple(self._guests.items()):
            if left > 0 and one.held_bytes:
                left -= one.held_bytes
                self.drop(name)
