"""`multiprocessing` and `ProcessPoolExecutor` on threads: no process can be started here.

Only what starts a process is replaced, and what relies on a child having its own copy of a descriptor. A worker gets
copies of the lists and dicts among its arguments, a process id and a `current_process()` of its own; globals it shares.
Values go through queues pickled, as between processes, but for those of a `Manager`, which are the same for all.
Loaded by the first import of `multiprocessing`.
"""

import atexit
import copy
import ctypes
import importlib.abc
import io
import itertools
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from typing import Any

from toolfold_guest.calls.channel import stopped_threads

_OWN_CODE = ("toolfold_guest.calls", "toolfold_guest.program")
_local = threading.local()
"""The `process` and the `pid` of a worker's thread."""
_managed: dict[int, Any] = {}
"""Objects of managers, by identity."""
# Not where threads run in place: nobody could interrupt one.
_interrupt_thread: Any = getattr(getattr(ctypes, "pythonapi", None), "PyThreadState_SetAsyncExc", None)
_sleep = time.sleep


class Loader(importlib.abc.Loader):
    """Loads one of the modules in `CHANGES` as usual, from a file or an archive, then changes it."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    def exec_module(self, module: types.ModuleType) -> None:
        self._usual.exec_module(module)
        CHANGES[module.__name__](module)


class Popen:
    """What a started `Process` calls its process: a thread that runs a copy of the object."""

    method = "fork"

    def __init__(self, process: Any) -> None:
        self.returncode: int | None = None
        self.pid = next(_process_ids)
        self.sentinel, self._end = os.pipe() if hasattr(os, "pipe") else (-1, -1)
        self._has_ended = threading.Event()
        self._ending = threading.Lock()
        self._connections: list[Any] = []
        # Here: registered by the zygote, it would be called at the end of every program.
        util = importlib.import_module("multiprocessing.util")
        atexit.unregister(util._exit_function)
        atexit.register(util._exit_function)
        child = copy.copy(process)
        child._popen = self
        child._args, child._kwargs = self._copy(process._args), self._copy(process._kwargs)
        # Not waited for at the end of the program: `multiprocessing` joins those that are no daemons itself.
        self._thread = threading.Thread(target=self._run, args=(child,), name="MainThread", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._finish(1)
            self.close()
            raise

    def poll(self, *_: Any) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        self._has_ended.wait(timeout)
        return self.returncode

    def terminate(self) -> None:
        self._stop(-signal.SIGTERM)

    def kill(self) -> None:
        self._stop(-signal.SIGKILL)

    def close(self) -> None:
        if self.sentinel >= 0:
            os.close(self.sentinel)
            self.sentinel = -1

    __del__ = close

    def _run(self, child: Any) -> None:
        _local.process, _local.pid = child, self.pid
        code = 1
        try:
            child.run()
            code = 0
        except SystemExit as leaving:
            code = _exit_code(leaving.code)
        except BaseException as error:  # noqa: BLE001  # printed, as by a process that ends with it
            print(f"Process {child.name}:", file=sys.stderr)  # noqa: T201  # the same
            traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        for connection in self._connections:
            connection.close()
        stopped_threads.discard(threading.get_ident())
        self._finish(code)

    def _finish(self, code: int) -> None:
        with self._ending:
            if self.returncode is None:
                self.returncode = code
                if self._end >= 0:
                    os.close(self._end)
                self._has_ended.set()

    def _stop(self, code: int) -> None:
        if self.returncode is None:
            self._finish(code)
            stopped_threads.add(self._thread.ident or 0)
            # In the middle of a tool call, half a message would be lost.
            if _is_calling(self._thread):
                threading.Thread(target=_interrupt_after_call, args=(self._thread,), daemon=True).start()
            else:
                _interrupt_after_call(self._thread)

    def _copy(self, value: Any) -> Any:
        kind = type(value)
        if id(value) in _managed:
            return value
        if kind in (list, tuple, set):
            return kind(map(self._copy, value))
        if kind is dict:
            return {key: self._copy(item) for key, item in value.items()}
        connections = sys.modules.get("multiprocessing.connection")
        if connections is None or kind is not connections.Connection or value.closed:
            return value
        # The caller may close its own.
        connection = kind(os.dup(value.fileno()), readable=value.readable, writable=value.writable)
        self._connections.append(connection)
        return connection


def _exit_code(code: Any) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)  # noqa: T201  # as the interpreter does
    return 1


def _is_calling(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_OWN_CODE):
            return True
        frame = frame.f_back
    return False


def _interrupt_after_call(thread: threading.Thread) -> None:
    while thread.is_alive() and _is_calling(thread):
        _sleep(0.01)
    _interrupt_thread(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


class _CurrentProcess:
    """The process object of whichever thread asks."""

    def __init__(self, main: Any) -> None:
        self.__dict__["_main"] = main

    def _process(self) -> Any:
        return getattr(_local, "process", self.__dict__["_main"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._process(), name, value)

    def __repr__(self) -> str:
        return repr(self._process())


class ProcessQueue(queue.Queue[Any]):
    """`multiprocessing.Queue` and `JoinableQueue`: what was put is there at once, and pickled."""

    is_closed = False

    def _put(self, item: Any) -> None:
        super()._put(_pickle(item))

    def _get(self) -> Any:
        return _unpickle(super()._get())

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if self.is_closed:
            raise ValueError(f"Queue {self!r} is closed")
        super().put(item, block, timeout)

    def close(self) -> None:
        self.is_closed = True

    def join_thread(self) -> None:
        """There is none."""

    cancel_join_thread = join_thread

    def __reduce__(self) -> Any:
        raise RuntimeError("Queue objects should only be shared between processes through inheritance")


class _TaskQueue:
    """Of a pool, whose workers would close their copies of one end."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, item: Any) -> None:
        self._items.put(_pickle(item))

    def get(self, block: bool = True) -> Any:
        return _unpickle(self._items.get(block))


def _pickle(value: Any) -> Any:
    return sys.modules["multiprocessing.reduction"].ForkingPickler.dumps(value)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, identity: Any) -> Any:
        return _managed[identity]


def _unpickle(data: Any, /, **options: Any) -> Any:
    return _Unpickler(io.BytesIO(data), **options).load()


def _change_package(package: Any) -> None:
    process, context, pickler = package.process, package.context, package.reduction.ForkingPickler
    process._current_process = _CurrentProcess(process._current_process)
    for kind in (context.Process, context.ForkProcess, context.SpawnProcess, context.ForkServerProcess):
        kind._Popen = staticmethod(Popen)
    pickler.persistent_id = lambda _, value: id(value) if id(value) in _managed else None
    pickler.loads = staticmethod(_unpickle)
    base = context.BaseContext
    base.Queue = base.JoinableQueue = lambda _, maxsize=0: ProcessQueue(maxsize)
    for name in ("Queue", "JoinableQueue"):
        setattr(package, name, getattr(context._default_context, name))
    os.getpid = _getpid
    signal.signal = _signal


def _change_pool(module: Any) -> None:
    def setup_queues(self: Any) -> None:
        self._inqueue, self._outqueue = _TaskQueue(), _TaskQueue()
        self._quick_put, self._quick_get = self._inqueue.put, self._outqueue.get

    pool, thread_pool = module.Pool, module.ThreadPool
    pool._setup_queues = setup_queues
    pool._get_sentinels = thread_pool._get_sentinels
    pool._help_stuff_finish = staticmethod(thread_pool._help_stuff_finish)


def _change_executor(module: Any) -> None:
    """Its queue of calls would be closed while workers still read from it."""
    report = module._SafeQueue._on_queue_feeder_error

    class CallQueue(ProcessQueue):
        def __init__(self, max_size: int = 0, *, ctx: Any = None, **options: Any) -> None:
            super().__init__(max_size)
            vars(self).update(options)
            self._reader = self._writer = io.BytesIO()  # something to close

        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            try:
                super().put(item, block, timeout)
            except queue.Full:
                raise
            except Exception as error:  # noqa: BLE001  # of a call that cannot be pickled, which it belongs to
                report(self, error, item)

        _terminate_broken = ProcessQueue.close

    module._SafeQueue = CallQueue


def _change_managers(module: Any) -> None:
    def run_server(
        cls: Any, _registry: Any, _address: Any, _key: Any, _serializer: Any, writer: Any,
        initializer: Callable[..., Any] | None = None, initargs: tuple[Any, ...] = (),
    ) -> None:  # fmt: skip
        if initializer is not None:
            initializer(*initargs)
        for kind in cls._registry:
            if hasattr(cls, kind):
                setattr(cls, kind, _make_managed(kind))
        writer.send("")

    module.BaseManager._run_server = classmethod(run_server)


def _make_managed(kind: str) -> Callable[..., Any]:
    def make(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        item = self._registry[kind][0](*args, **kwargs)
        _managed[id(item)] = item
        return item

    return make


def _getpid() -> int:
    return getattr(_local, "pid", 0) or _own_pid()


def _signal(signalnum: Any, handler: Any) -> Any:
    """Of a worker: only the main thread has handlers."""
    return signal.SIG_DFL if hasattr(_local, "process") else _set_handler(signalnum, handler)


_set_handler = signal.signal
_own_pid = os.getpid
_process_ids = itertools.count(2)
CHANGES: dict[str, Callable[[Any], None]] = {
    "concurrent.futures.process": _change_executor, "multiprocessing": _change_package,
    "multiprocessing.managers": _change_managers, "multiprocessing.pool": _change_pool,
}  # fmt: skip
