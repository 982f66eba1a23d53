"""One child for all tool objects of a process that want the same one: starting it takes a second and 150 MB.

Tools hold a share. The child starts with the first program of any of them, and ends with the last share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Protocol, TypeVar

from toolfold.doors.gem.link import Child, Link

_T = TypeVar("_T")


class Line(Protocol):
    """A way to the child; a link of one's own, or a share of one."""

    # Any: what a coroutine yields and is sent is asyncio's business.
    def run(self, work: Callable[[Child], Coroutine[Any, Any, _T]]) -> _T: ...
    def close(self) -> None: ...


class _SharedChild:
    def __init__(self, link: Link) -> None:
        self.link = link
        self.shares = 0


_held: dict[Hashable, _SharedChild] = {}
_lock = threading.Lock()


class Share:
    """A share of the link with this key, which `make` makes if there is none. Used from any thread."""

    def __init__(self, key: Hashable, make: Callable[[], Link]) -> None:
        self._key = key
        self._make = make
        self._link: Link | None = None

    # Any: the same.
    def run(self, work: Callable[[Child], Coroutine[Any, Any, _T]]) -> _T:
        """Do something with the client; blocks until it is done."""
        return self._taken().run(work)

    def close(self) -> None:
        """Give the share back; the last one ends the child. The next use takes a new one."""
        with _lock:
            link, self._link = self._link, None
            held = _held.get(self._key)
            if link is None or held is None or held.link is not link:
                return
            held.shares -= 1
            if held.shares:
                return
            del _held[self._key]
        link.close()

    def _taken(self) -> Link:
        with _lock:
            if self._link is None:
                held = _held.get(self._key)
                if held is None:
                    held = _held[self._key] = _SharedChild(self._make())
                held.shares += 1
                self._link = held.link
            return self._link
