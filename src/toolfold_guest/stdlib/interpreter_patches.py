"""Interpreter patches, applied once in the zygote: signals, recursion limit, thread semaphores."""

import functools
import signal
import sys
import threading
from typing import Any

from toolfold_guest.program.output_streams import Stream
from toolfold_guest.shared.reserved_names import PROCESS

OWN_FRAMES = 11
"""Below the first frame of a program that awaits nothing."""


def heed_signals(streams: tuple[Stream, Stream]) -> None:
    """The host asks for last words with SIGTERM: a program that will not hear it is heard at once instead."""
    if not hasattr(signal, "pthread_sigmask"):  # on WebAssembly, where there are no signals
        return
    block, handle = signal.pthread_sigmask, signal.signal

    def print_at_once() -> None:
        for stream in streams:
            stream.flush()
            stream.reconfigure(line_buffering=True)

    def pthread_sigmask(how: Any, mask: Any) -> Any:
        before = block(how, mask)
        if signal.SIGTERM in block(signal.SIG_BLOCK, ()):
            print_at_once()
        return before

    def set_handler(signalnum: Any, handler: Any) -> Any:
        before = handle(signalnum, handler)
        if signalnum == signal.SIGTERM:
            print_at_once()
        return before

    signal.pthread_sigmask = functools.update_wrapper(pthread_sigmask, block)
    signal.signal = functools.update_wrapper(set_handler, handle)


def count_own_frames() -> None:
    """A program may go as deep as under the interpreter alone, and is told the limit that it knows."""
    get, put = sys.getrecursionlimit, sys.setrecursionlimit

    def getrecursionlimit() -> int:
        return get() - OWN_FRAMES

    def setrecursionlimit(limit: int, /) -> None:
        put(limit + OWN_FRAMES if limit > 0 else limit)

    # The real limit is higher by what our own frames take, so a program gets all that it is promised.
    put(get() + OWN_FRAMES)
    sys.getrecursionlimit = functools.update_wrapper(getrecursionlimit, get)
    sys.setrecursionlimit = functools.update_wrapper(setrecursionlimit, put)


# ----------------------------------------------------------------------------------------------------
# `_multiprocessing` for a single process: semaphores between threads.
#
# The system's own are shared files, which the jail does not have. Without them no `multiprocessing.pool.ThreadPool`,
# `Queue` or `Lock` can be made, although none of these needs a process. Loaded by the first use of one.

_RECURSIVE_MUTEX = 0


class SemLock:
    """As the one of C, but for threads alone."""

    SEM_VALUE_MAX = 2**31 - 1
    handle = 0
    # Nothing to be removed when the program ends.
    name = None

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        # Other libraries, such as joblib, ask for one to learn whether there can be processes.
        if not name.startswith("/mp"):
            raise PermissionError(1, PROCESS)
        self.kind, self.maxvalue = kind, maxvalue
        self._value = value
        self._changed = threading.Condition(threading.Lock())
        self._acquire_count, self._owner = 0, 0

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        patience = timeout if block else 0
        with self._changed:
            if self.kind == _RECURSIVE_MUTEX and self._is_mine():
                self._acquire_count += 1
                return True
            if not self._changed.wait_for(lambda: self._value > 0, None if patience is None else max(patience, 0)):
                return False
            self._value -= 1
            self._acquire_count += 1
            self._owner = threading.get_ident()
            return True

    def release(self) -> None:
        with self._changed:
            if self.kind == _RECURSIVE_MUTEX:
                if not self._is_mine():
                    raise AssertionError("attempt to release recursive lock not owned by thread")
                self._acquire_count -= 1
                if self._acquire_count:
                    return
            elif self._value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            else:
                self._acquire_count -= 1
            self._value += 1
            self._changed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _count(self) -> int:
        return self._acquire_count

    def _is_mine(self) -> bool:
        return self._acquire_count > 0 and self._owner == threading.get_ident()

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0

    def _after_fork(self) -> None:
        """There is never another process."""


def sem_unlink(name: str) -> None:
    """There is no file to remove."""


flags: dict[str, int] = {}
