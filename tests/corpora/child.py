"""Plain CPython, as a server on a pipe: a fork that has the named libraries runs each program.

Started by path, so it must import nothing of this repository. A line in is a program, a line out is its end,
with what the program asked of the machine: sockets, processes, a display, files of the host. Several run at once.
"""

import asyncio
import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

import traced

TEXT_LIMIT = 60_000
_LIBC = ctypes.CDLL(None)
_JUNK = []
_MEMORY = "/dev/shm"
"""A tmpfs lists a folder in its own order, and the data folder of a jail is one."""


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    traced.prepare()
    gc.freeze()
    unread, is_open, running = b"", True, {}
    while is_open or running:
        ready = _wait([0] if is_open else [], running)
        if 0 in ready:
            data = os.read(0, 1 << 20)
            is_open = bool(data)
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                run = _Run(json.loads(line))
                running[run.handle] = run
        for run in [run for run in running.values() if run.handle in ready or run.is_late()]:
            del running[run.handle]
            replies.write(json.dumps(run.end()) + "\n")
            replies.flush()


def _wait(inputs, running):
    """The descriptors that have something to say: a request, or the end of a program."""
    left = min((run.last - time.monotonic() for run in running.values()), default=None)
    ready, _, _ = select.select([*inputs, *running], [], [], left if left is None else max(0, left))
    return set(ready)


class _Run:
    """One program in a fork."""

    def __init__(self, request):
        self._request = request
        self._folder = tempfile.mkdtemp(prefix="corpora-", dir=_MEMORY if Path(_MEMORY).is_dir() else None)
        self._child = os.fork()
        if not self._child:
            _become(request, self._folder)
        self.handle = os.pidfd_open(self._child)
        self.last = time.monotonic() + request["seconds"]

    def is_late(self):
        return time.monotonic() >= self.last

    def end(self):
        """What became of it; what it left running is ended."""
        is_late = not select.select([self.handle], [], [], 0)[0]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        _, status = os.waitpid(self._child, 0)
        os.close(self.handle)
        try:
            return {"id": self._request["id"], **self._report(status, is_late)}
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _report(self, status, is_late):
        report, asked = Path(self._folder, "end.json"), Path(self._folder, "asked")
        end = json.loads(report.read_text()) if report.exists() else {"ending": "Killed", "words": str(status)}
        printed = Path(self._folder, "stdout").read_bytes()[:TEXT_LIMIT].decode("utf-8", "replace")
        did = [json.loads(line) for line in asked.read_text().splitlines()] if asked.exists() else []
        return {**({"ending": "TimeLimit", "words": ""} if is_late else end), "stdout": printed, "did": did}


def _become(request, folder):
    """Turns this fork into the program; never returns."""
    os.setpgid(0, 0)
    os.closerange(3, 4096)  # the other programs' handles, and the way back
    data = Path(folder, "data")
    data.mkdir()
    nothing = os.open(os.devnull, os.O_RDWR)
    out = os.open(f"{folder}/stdout", os.O_CREAT | os.O_RDWR)
    for old, new in ((nothing, 0), (out, 1), (nothing, 2)):
        os.dup2(old, new)
    os.chdir(data)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # lives as long as the program
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    path = Path(folder, "program.py")
    path.write_text(request["text"], "utf-8", "surrogatepass")
    sys.argv, sys.path[:] = [str(path)], [str(data), *sys.path[1:]]
    _make_new(request["shaken"])
    traced.start(f"{folder}/asked", os.getpid())
    end = _end_of(request, str(path))
    traced.stop()
    Path(folder, "end.json").write_text(json.dumps(end))
    _leave()


def _make_new(is_shaken):
    """What a new process has and a fork has not: random numbers and, if asked for, addresses of its own."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
    sympy = sys.modules.get("sympy.core.random")
    if sympy is not None:
        sympy.rng.seed()
    if is_shaken:
        sizes = [random.randrange(16, 600) for _ in range(20_000)]
        _JUNK.extend(bytearray(size) for size in sizes)
        random.shuffle(_JUNK)
        del _JUNK[::2]


def _leave():
    """Ends as the interpreter does, but leaves the libraries alone: to take them apart takes a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    vars(sys.modules["__main__"]).clear()
    gc.collect()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    _LIBC.fflush(None)  # what C code printed
    os._exit(0)


def _end_of(request, path):
    try:
        _execute(request, path)
    except SystemExit as error:
        return {"ending": "finished" if not error.code else "SystemExit", "words": str(error.code)}
    except BaseException as error:  # noqa: BLE001  # whatever ended it is the answer
        return {"ending": type(error).__name__, "words": _words(error)}
    return {"ending": "finished", "words": ""}


def _words(error):
    try:
        return str(error)[:2000]
    except Exception:  # noqa: BLE001  # its own `__str__` may fail
        return "<exception str() failed>"


def _execute(request, path):
    module = types.ModuleType("__main__")
    module.__file__ = path
    if request["package"]:
        module.__package__ = request["package"]
    sys.modules["__main__"] = module
    flags = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, as a notebook has it
    code = compile(request["text"], path, "exec", flags=flags, dont_inherit=True)
    is_async = bool(code.co_flags & inspect.CO_COROUTINE)
    for name in request["tools"]:
        setattr(module, name, _tool(name, is_async))
    if is_async:
        asyncio.run(eval(code, vars(module)))
    else:
        exec(code, vars(module))


def _tool(name, is_async):
    def call(**arguments):
        return json.loads(json.dumps({"tool": name, "arguments": arguments}))

    async def call_async(**arguments):
        return call(**arguments)

    return call_async if is_async else call


if __name__ == "__main__":
    main()
