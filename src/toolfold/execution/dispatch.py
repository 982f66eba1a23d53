"""Calls on their way to tools: how many at once, and which wait for a place.

Must not know what serving a call means.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from toolfold.execution import eager

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any

    from toolfold.models import Call


class Dispatch:
    """Starts a task for each call, at most so many at a time.

    Args:
        most: Calls in flight at once; the next ones wait for a place.
        serve: Serves one call.
    """

    def __init__(self, most: int, serve: Callable[[Call], Coroutine[Any, Any, None]]) -> None:
        self._most = most
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._queued: deque[Call] = deque()
        self._aside: set[int] = set()
        """Calls that wait for a yes or no; they take no place, or a `gather` of approvals could never be asked."""
        self._is_closed = False

    def send(self, call: Call) -> None:
        """Serve a call now, or when there is a place."""
        if self._is_closed:
            return
        if len(self._tasks) - len(self._aside) >= self._most:
            self._queued.append(call)
            return
        task = eager.start(self._serve(call))
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._landed)

    def step_aside(self, call_id: int) -> None:
        """A call in flight waits for a person: the next one may have its place."""
        self._aside.add(call_id)
        self._send_next()

    def step_back(self, call_id: int) -> None:
        """The person has answered."""
        self._aside.discard(call_id)

    @property
    def is_idle(self) -> bool:
        """Whether every call in flight waits for a person."""
        # One that has answered counts no more, although its end is told to us only in the next turn of the loop.
        return not self._queued and sum(not task.done() for task in self._tasks) <= len(self._aside)

    def close(self) -> None:
        """End all that is in flight, and start nothing more."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._send_next()

    def _send_next(self) -> None:
        if self._queued:
            self.send(self._queued.popleft())
