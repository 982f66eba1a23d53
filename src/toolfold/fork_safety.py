"""Fork safety: open objects that a forked child disowns, and whose use it refuses.

A fork copies descriptors, not what is behind them: a child that reads, writes or closes politely
does it to the parent's guests, files and connections.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from toolfold.errors import UsageError


@runtime_checkable
class Forkable(Protocol):
    """An open object that has something to let go of in a forked child."""

    def disown(self) -> None:
        """In the child: let go of all that is the parent's, without a word to the other side."""


_open: weakref.WeakSet[Forkable | ProcessOwned] = weakref.WeakSet()


def watch(thing: Forkable | ProcessOwned) -> None:
    """Mark the object as inherited, and have it disowned, in each child that is forked while it lives."""
    _open.add(thing)


class ProcessOwned:
    """Base of an object whose verbs are for the process that opened it; closing it in a child does nothing."""

    _is_inherited = False
    """Whether this is a child that was forked since."""

    def _check_process(self) -> None:
        """`UsageError` for a use of the parent's object in a forked child; every verb begins with this."""
        if self._is_inherited:
            kind = type(self).__name__
            raise UsageError(
                f"this {kind} was opened before a fork and belongs to the parent process; open another one here"
            )


def blank(fds: Iterable[int]) -> None:
    """Put the null device behind these numbers: they stay taken, and nothing done to them reaches the parent."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        if fd >= 0:
            os.dup2(null, fd, inheritable=False)
    os.close(null)


def _disown_all() -> None:
    for thing in tuple(_open):
        if isinstance(thing, ProcessOwned):
            thing._is_inherited = True
        if isinstance(thing, Forkable):
            thing.disown()
    _open.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_disown_all)
