"""The guest of one program: where it comes from, which files it has, and where it goes afterwards."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from toolfold.engines.process.files import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolfold.engines.base import Ended, Order
    from toolfold.engines.process.guest import Guest
    from toolfold.engines.process.kept import KeptGuests
    from toolfold.engines.process.pool import Pool
    from toolfold.engines.process.speed.forewarning import Forewarning
    from toolfold.models import Limits


_EMPTY_TMPFS_BYTES: Final = 40
"""As Linux has it; every name in a folder adds to it. Where that should ever differ, the folder is listed."""


class TakenGuest:
    """A guest that its session kept, one that was told of the program, or the next one of the pool.

    Args:
        pool_of: Gives the pool that the guest is of, and starts it if there is none.
        kept: The guests of sessions.
        forewarning: The guest that knows a program which was being checked.
        order: What it is for.
    """

    pool: Pool
    guest: Guest

    def __init__(
        self,
        pool_of: Callable[[], Coroutine[Any, Any, Pool]],
        kept: KeptGuests,
        forewarning: Forewarning,
        order: Order,
    ) -> None:
        self._pool_of = pool_of
        self._kept = kept
        self._forewarning = forewarning
        self._order = order
        self._files = frozenset(file.name for file in order.files) if order.files else frozenset()
        """Those that the program has once it runs; at its end, those that it left."""
        self.is_kept = False
        """It has served a program of this session, and has its names and files."""
        self.is_told = False
        """It has made the program ready, and waits for its start."""
        self.is_started = False
        """It has been sent that, too."""

    async def take(self) -> None:
        """Have a guest. It may still be on its way: see `until_ready`."""
        order = self._order
        self.pool = await self._pool_of()
        kept = self._kept.take(order.session) if order.session else None
        self.is_kept = kept is not None
        if kept is not None:
            # A guest without the session's names is of no use.
            self._forewarning.forget()
            self.pool, self.guest, self._files = kept
            return
        limits = self.limits
        told = self._forewarning.take(self.pool, limits, order)
        self.is_told = told is not None
        self.guest, self.is_started = told or (self.pool.take(limits), False)

    @property
    def limits(self) -> Limits:
        """A guest that serves a whole session has CPU time for many programs."""
        limits = self._order.limits
        return replace(limits, cpu_seconds=limits.cpu_seconds * 10) if self._order.session else limits

    @property
    def is_ready(self) -> bool:
        """Whether it is locked down."""
        ready = self.guest.ready
        return self.is_kept or (ready.done() and not ready.cancelled() and ready.exception() is None)

    async def until_ready(self) -> None:
        """Returns when it is locked down; raises if it cannot be, and then it is given back."""
        if not self.is_kept:
            await self.pool.until_ready(self.guest)

    def give_back(self, *, is_kept: bool) -> None:
        """The program is over. Its session keeps a guest that is sound; any other ends here."""
        if is_kept:
            self._kept.keep(self._order.session, self.pool, self.guest, self._files)
        else:
            self.pool.give_back(self.guest)

    def _has_nothing(self) -> bool:
        # One call where listing takes eight: in memory, a folder's size counts what is in it.
        if self.pool.zygote.has_tree and os.fstat(self.guest.data_fd).st_size == _EMPTY_TMPFS_BYTES:
            return True
        return not os.listdir(self.guest.data_fd)

    async def with_files(self, ended: Ended, *, is_kept: bool) -> Ended:
        """Collect after the kill: a guest that still runs could change what is being read. A session keeps its own."""
        if self.guest.data_fd < 0:
            return ended
        # By the descriptor that the guest sent before its program ran: its path means another folder out here.
        if self._has_nothing():
            had, self._files = self._files, frozenset()
            # Nothing to read, so its end need not be hastened before the outcome is out.
            return replace(ended, deleted=had) if had else ended
        if not is_kept:
            self.guest.kill()
        given = {file.name: file.data for file in self._order.files}
        # In a thread: thousands of files, each opened on its own, would hold up every other program.
        found = await asyncio.to_thread(collect, self.guest.data_fd, given, self._order.limits)
        had, self._files = self._files, found.names
        return replace(ended, files=found.files, deleted=found.missing(had), notes=ended.notes + found.notes)
