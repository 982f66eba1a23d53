"""Guests that a session keeps between its programs, with their names and files.

A session is one domain of trust: what one of its programs leaves running can speak in the name
of the next. Nothing of it reaches another session, whose guest is another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolfold.engines.process.pool import Pool
    from toolfold.engines.process.zygote import Guest


class KeptGuests:
    """Idle guests by session. A guest in use is not in here, so it cannot be used twice."""

    def __init__(self) -> None:
        self._guests: dict[str, tuple[Pool, Guest, frozenset[str]]] = {}

    def take(self, session: str) -> tuple[Pool, Guest, frozenset[str]] | None:
        """The session's guest, if it has one that is still alive, and the names of its files."""
        kept = self._guests.pop(session, None)
        if kept is not None and kept[0].zygote.closed:
            kept[0].give_back(kept[1])  # it went with its zygote
            return None
        return kept

    def keep(self, session: str, pool: Pool, guest: Guest, files: frozenset[str]) -> None:
        """A program ended; its guest waits for the next."""
        self._guests[session] = (pool, guest, files)

    def has(self, session: str) -> bool:
        """Whether the session's names are still there."""
        return session in self._guests

    def drop(self, session: str) -> None:
        """End the session's guest; harmless if there is none."""
        kept = self._guests.pop(session, None)
        if kept is not None:
            pool, guest, _ = kept
            pool.give_back(guest)

    def drop_all(self) -> None:
        """End them all."""
        for session in tuple(self._guests):
            self.drop(session)
