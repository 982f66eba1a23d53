"""A program is made ready in the guest that it will get, while the host checks it.

To compile a program and to fill its names takes a guest about as long as the check takes the host. Nothing of it
runs before the start. A guest that was told of a program is for no other: if that does not come, the guest ends.

The start follows as soon as the check has passed: what the host needs to hear of a program, it makes while that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from toolfold.engines.process.frames import program_frame, start_frame
from toolfold.models import OWN_SETS

if TYPE_CHECKING:
    from toolfold.engines.base import Order
    from toolfold.engines.process.guest import Guest
    from toolfold.engines.process.pool import Pool
    from toolfold.models import LibrarySet, Limits, ToolSpec

MOST_TOLD_BYTES: Final = 64 * 1024
"""Fits into the buffer of an idle socket; and what takes longer to check gains little from it."""


class _Told(msgspec.Struct):
    """A guest, taken from its pool, and the program that it was told of."""

    pool: Pool
    library_set: LibrarySet
    guest: Guest
    text: str
    tools: Sequence[ToolSpec]
    started: Order | None = None
    """What it was sent to start with; `None` if it waits for that."""


class Forewarning:
    """At most one guest that knows the program which is being checked. It is a `Forewarned` for the runtime."""

    def __init__(self) -> None:
        self.pool: Pool | None = None
        """Of the last program: the next one probably needs the same libraries."""
        self.library_set: LibrarySet = "bare"
        """That the last program asked for."""
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
                self._told = _Told(pool, self.library_set, guest, text, tools)
            else:
                pool.give_back(guest)

    def begin(self, order: Order) -> None:
        """The check has passed, and `open` comes next: let the program run, if a guest has made this one ready."""
        told = self._told
        # Files may be more than the socket takes at once, and a session's guest is another one.
        if told is None or order.files or order.session:
            return
        # Programs with installed libraries have more room than the usual guest.
        if told.library_set != order.program.library_set or told.library_set not in OWN_SETS:
            return
        if told.text != order.program.text or told.tools is not order.tools or not told.pool.is_usual(order.limits):
            return
        start = start_frame(order, has_files=False)
        if len(start) > MOST_TOLD_BYTES:  # its standard input may be long
            return
        try:
            is_sent = told.guest.sock.send(start) == len(start)
        except OSError:  # it has just died, or its buffer is full
            is_sent = False
        if is_sent:
            told.guest.place.set_free()
            told.started = order
        else:
            self.forget()

    def forget(self) -> None:
        """The program that was expected does not come; one that is expected besides it loses time."""
        told, self._told = self._told, None
        if told is not None:
            told.pool.give_back(told.guest)

    def disown(self) -> None:
        """In a forked child: the guest is the parent's."""
        self.pool = self._told = None

    def take(self, pool: Pool, limits: Limits, order: Order) -> tuple[Guest, bool] | None:
        """The guest that has made this program ready, if there is one, and whether it was sent its start.

        A guest that was told of another program, or to start in another way, ends.
        """
        self.library_set = order.program.library_set
        told = self._told
        if told is None:
            return None
        # The grant by identity: to compare thousands of tools takes longer than to begin anew.
        is_same = told.text == order.program.text and told.tools is order.tools
        if told.started is not None and is_same:
            is_same = _starts_alike(told.started, order)
        if is_same and told.pool is pool and pool.is_usual(limits):
            self._told = None
            return told.guest, told.started is not None
        self.forget()
        return None


def _starts_alike(one: Order, other: Order) -> bool:
    """Whether a guest is told the same to start either: all that `start_frame` reads, mostly by identity."""
    return (
        one.program is other.program
        and one.limits is other.limits
        and one.tape is other.tape
        and one.seed == other.seed
        and one.report_waiting == other.report_waiting
        and one.session == other.session
        and not other.files
    )


def _tell(guest: Guest, frame: bytes) -> bool:
    """Wake it up, on another core than ours, and hand it all of the program; false if it cannot take that."""
    # Before it is woken: here it would wait until the check is over, which is what this is to avoid.
    guest.place.stay_away()
    try:
        return guest.sock.send(frame) == len(frame)
    except OSError:  # it has just died, or its buffer is full
        return False
