"""An event loop of one's own, for callers that are not async; it ends with its owner or the interpreter."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from toolfold import forks

_T = TypeVar("_T")


class OwnLoop:
    """Runs one coroutine at a time and keeps its loop, with all that is open in it, for the next.

    Args:
        holds: What is open in the loop; lives until the loop has ended.
    """

    def __init__(self, holds: object) -> None:
        self._holds = holds
        self._runner: asyncio.Runner | None = None
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize[Any, OwnLoop] | None = None
        self._of_parent: asyncio.Runner | None = None
        forks.watch(self)

    def disown(self) -> None:
        """In a forked child: the loop waits for the parent's descriptors; the next coroutine here gets another."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._lock = threading.Lock()
        self._of_parent, self._runner = self._runner, None

    # Any: what a coroutine yields and is sent is asyncio's business.
    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """To its end, from any thread."""
        with self._lock:
            if self._runner is None:
                self._runner = asyncio.Runner()
                self._finalizer = weakref.finalize(self, _end, self._runner, self._holds)
            return self._runner.run(work)


def is_in_a_loop() -> bool:
    """Whether this code is called by an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _end(runner: asyncio.Runner, holds: object) -> None:
    if is_in_a_loop():
        # The garbage collector may come by anywhere, and one loop cannot run within another.
        threading.Thread(target=_end, args=(runner, holds)).start()
        return
    loop = runner.get_loop()
    # When the interpreter ends no more threads can be started, and `Runner.close` wants one.
    loop.set_default_executor(_Inline())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


class _Inline(ThreadPoolExecutor):
    """Does at once what a thread should do: asyncio takes no executor that is not of this class."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        # It belongs to whoever waits for the future.
        except BaseException as error:  # noqa: BLE001
            future.set_exception(error)
        return future
