"""Threads where there are none, as on WebAssembly: what a program gives to one runs in its place, when it starts.

So `ThreadPoolExecutor`, `asyncio.to_thread`, `threading.Thread`, `ProcessPoolExecutor` and `multiprocessing.Pool` give
what they would give elsewhere, one after the other. What one thread would have to wait for another to do fails with
words: nobody could do it.
"""

import importlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Self

NOBODY = "nothing can end this wait: this engine runs threads one after the other, when they are started"


def prepare() -> None:
    """Once, before the first program."""
    for owner, name, function in (
        (threading, "_start_joinable_thread", _start), (threading.Condition, "wait", _wait),
        (ThreadPoolExecutor, "submit", _submit), (ThreadPoolExecutor, "_adjust_thread_count", lambda _: None),
    ):  # fmt: skip
        setattr(owner, name, function)
    process_threads: Any = importlib.import_module("toolfold_guest.stdlib.process_threads")
    process_threads.CHANGES |= {"concurrent.futures.process": _change_processes, "multiprocessing.pool": _change_pools}


def is_in_thread() -> bool:
    return threading.current_thread() is not threading.main_thread()


class _Handle:
    """Of a thread, in place of the system's."""

    is_over = False

    def is_done(self) -> bool:
        return self.is_over

    def join(self, timeout: float | None = None) -> None:
        if not self.is_over:  # it is further out on this stack
            raise RuntimeError(NOBODY)


def _start(bootstrap: Any, **_: object) -> None:
    handle = bootstrap.__self__._os_thread_handle = _Handle()
    # A thread registers itself as the one that runs now.
    threads: dict[int, Any] = threading._active  # type: ignore[attr-defined]
    ident = threading.get_ident()
    outer = threads[ident]
    try:
        bootstrap()
    finally:
        handle.is_over = True
        threads[ident] = outer


def _wait(_: Any, timeout: float | None = None) -> bool:
    if timeout is None:
        # A daemon that waits for more work has done all that there is.
        raise SystemExit if is_in_thread() and threading.current_thread().daemon else RuntimeError(NOBODY)
    time.sleep(max(0.0, timeout))
    return False


_put_in_queue: Any = ThreadPoolExecutor.submit


def _submit(executor: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    future = _put_in_queue(executor, function, *args, **kwargs)
    item = executor._work_queue.get_nowait()

    def run() -> None:
        context = vars(executor).get("in_place")
        if context is None:
            context = executor.in_place = executor._create_worker_context()
            context.initialize()
        item.run(context)

    # A thread, so that what runs finds itself in one.
    thread = threading.Thread(target=run, name=f"{executor._thread_name_prefix or 'ThreadPoolExecutor'}_0")
    thread.start()
    return future


# ----------------------------------------------------------------------------------------------------
# Processes, which are threads already


class _ProcessPoolExecutor(ThreadPoolExecutor):
    def __init__(
        self, max_workers: int | None = None, mp_context: Any = None, initializer: Any = None,
        initargs: tuple[Any, ...] = (), *, max_tasks_per_child: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(max_workers, "", initializer, initargs)


class _Result:
    """Of a call that has been made."""

    def __init__(self, call: Callable[[], Any], callback: Any, error_callback: Any) -> None:
        self._error: BaseException | None = None
        self._value: Any = None
        try:
            self._value = call()
        except Exception as error:  # noqa: BLE001  # whoever asks for the value gets it
            self._error = error
        told = callback if self._error is None else error_callback
        if told is not None:
            told(self._value if self._error is None else self._error)

    def get(self, timeout: float | None = None) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout: float | None = None) -> None:
        """It is here."""

    def ready(self) -> bool:
        return True

    def successful(self) -> bool:
        return self._error is None


class _Pool:
    def __init__(
        self, processes: int | None = None, initializer: Any = None, initargs: Iterable[Any] = (), *_: Any, **__: Any
    ) -> None:
        if initializer is not None:
            initializer(*initargs)
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._is_open = False

    terminate = join = close

    def apply_async(
        self, func: Any, args: Any = (), kwds: Any = None, callback: Any = None, error_callback: Any = None
    ) -> _Result:
        if not self._is_open:
            raise ValueError("Pool not running")
        return _Result(partial(func, *args, **(kwds or {})), callback, error_callback)

    def map_async(
        self, func: Any, iterable: Any, chunksize: Any = None, callback: Any = None, error_callback: Any = None
    ) -> _Result:
        return self.apply_async(lambda: list(map(func, iterable)), callback=callback, error_callback=error_callback)

    def starmap_async(
        self, func: Any, iterable: Any, chunksize: Any = None, callback: Any = None, error_callback: Any = None
    ) -> _Result:
        call = partial(itertools.starmap, func, iterable)
        return self.apply_async(lambda: list(call()), callback=callback, error_callback=error_callback)

    def apply(self, func: Any, args: Any = (), kwds: Any = None) -> Any:
        return self.apply_async(func, args, kwds).get()

    def map(self, func: Any, iterable: Any, chunksize: Any = None) -> Any:
        return self.map_async(func, iterable).get()

    def starmap(self, func: Any, iterable: Any, chunksize: Any = None) -> Any:
        return self.starmap_async(func, iterable).get()

    def imap(self, func: Any, iterable: Any, chunksize: int = 1) -> Iterator[Any]:
        return iter(self.map(func, iterable))

    imap_unordered = imap


def _change_processes(module: Any) -> None:
    module.ProcessPoolExecutor = _ProcessPoolExecutor


def _change_pools(module: Any) -> None:
    module.Pool = module.ThreadPool = _Pool
