"""The worker process of one program, which any thread can kill. Knows nothing of what runs there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from toolfold.engines.base import Died, Ended

_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no other way to end a process


class StoppedError(Exception):
    """The run was stopped; `Worker.last` has the event that says how."""


class Worker:
    """Whether the program may go on, and the process to kill if it may not.

    One lock guards all of it: a process id may be given to another process as soon as the pool has reaped ours,
    so no kill may come after `playing` is left.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._stopped: Ended | None = None
        self._is_over = False

    def stop(self, last: Ended) -> bool:
        """Kill it, from any thread; `False` if the program is over or was stopped before."""
        with self._lock:
            if self._is_over or self._stopped is not None:
                return False
            self._stopped = last
            if self._pid is not None:
                _kill(self._pid)
        return True

    @contextmanager
    def playing(self, pid: int) -> Iterator[None]:
        """As long as this is entered, `stop` kills the process."""
        with self._lock:
            self.refuse_stopped()
            self._pid = pid
        try:
            yield
        finally:
            with self._lock:
                self._pid, self._is_over = None, True

    def refuse_stopped(self) -> None:
        """Raise `StoppedError` if the run was stopped."""
        if self._stopped is not None:
            raise StoppedError

    def last(self, event: Ended | Died) -> Ended | Died:
        """The last event of the run: this one, unless it was stopped. Later stops come too late."""
        with self._lock:
            self._is_over = True
        return self._stopped or event


def _kill(pid: int) -> None:
    try:
        os.kill(pid, _KILL)
    except ProcessLookupError:
        return
