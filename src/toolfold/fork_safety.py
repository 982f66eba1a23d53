"""Fork safety: open objects that a forked child disowns, and whose use it refuses.

A fork copies descriptors, not what is behind them: a child that reads, writes or closes politely
does it to the parent's guests, files and connections.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from typing import Any, NoReturn, Protocol, runtime_checkable

from toolfold.errors import UsageError


@runtime_checkable
class Forkable(Protocol):
    """Something open that a forked child must not use, and that has more to let go of than itself."""

    def disown(self) -> None:
        """In the child: let go of all that is the parent's, without a word to the other side."""


_open: weakref.WeakSet[object] = weakref.WeakSet()


def watch(thing: object) -> None:
    """Have `thing.disown` called in each child that is forked while it lives; `inherit` where there is none."""
    _open.add(thing)


class Inherited:
    """Stand-in for a parent's object in a forked child: closing it does nothing, any other use is refused."""

    # Any: whatever is asked for, the answer is the same.
    def __getattr__(self, name: str) -> Any:
        _refuse(self.__dict__["kind"])

    async def __aenter__(self) -> NoReturn:
        _refuse(self.__dict__["kind"])

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def close(self) -> None:
        return None


def inherit(thing: object) -> None:
    """Make an object of the parent's into an `Inherited`; what it held is kept, for to free it might be heard."""
    state = dict(thing.__dict__)
    thing.__dict__.clear()
    thing.__dict__.update(kind=type(thing).__name__, held=state)
    object.__setattr__(thing, "__class__", Inherited)


def is_inherited(thing: object) -> bool:
    """For what `async with` calls at its end: it looked that up at its beginning."""
    return isinstance(thing, Inherited)


def blank(fds: Iterable[int]) -> None:
    """Put the null device behind these numbers: they stay taken, and nothing done to them reaches the parent."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        if fd >= 0:
            os.dup2(null, fd, inheritable=False)
    os.close(null)


def _refuse(kind: str) -> NoReturn:
    raise UsageError(f"this {kind} was opened before a fork and belongs to the parent process; open another one here")


def _disown_all() -> None:
    for thing in tuple(_open):
        if isinstance(thing, Forkable):
            thing.disown()
        else:
            inherit(thing)
    _open.clear()


os.register_at_fork(after_in_child=_disown_all)
