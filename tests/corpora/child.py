"""Plain CPython, as a server on a pipe: a fork that has the named libraries runs each program.

Started by path, so it must import nothing of this repository. A line in is a program, a line out is its end.
"""

import asyncio
import atexit
import contextlib
import gc
import importlib
import inspect
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

TEXT_LIMIT = 60_000


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        replies.write(json.dumps(_run(json.loads(line))) + "\n")
        replies.flush()


def _run(request):
    folder = tempfile.mkdtemp(prefix="corpora-")
    child = os.fork()
    if not child:
        _become(request, folder)
    try:
        status = _wait(child, request["seconds"])
        report = Path(folder, "end.json")
        end = json.loads(report.read_text()) if report.exists() else {"ending": "Killed", "words": str(status)}
        printed = Path(folder, "stdout").read_bytes()[:TEXT_LIMIT].decode("utf-8", "replace")
        return {**({"ending": "TimeLimit", "words": ""} if status is None else end), "stdout": printed}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(child, seconds):
    """The status of a child, `None` if its time was up."""
    last = time.monotonic() + seconds
    pause = 0.001
    while time.monotonic() < last:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _become(request, folder):
    """Turns this fork into the program; never returns."""
    os.setpgid(0, 0)
    data = Path(folder, "data")
    data.mkdir()
    nothing = os.open(os.devnull, os.O_RDWR)
    out = os.open(f"{folder}/stdout", os.O_CREAT | os.O_RDWR)
    for old, new in ((nothing, 0), (out, 1), (nothing, 2)):
        os.dup2(old, new)
    os.chdir(data)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # lives as long as the program
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    path = data / "program.py"
    path.write_text(request["text"], "utf-8", "surrogatepass")
    sys.argv, sys.path[:] = [str(path)], [str(data), *sys.path[1:]]
    end = _end_of(request, str(path))
    Path(folder, "end.json").write_text(json.dumps(end))
    _leave()


def _leave():
    """Ends as the interpreter does, but leaves the libraries alone: to take them apart takes a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    vars(sys.modules["__main__"]).clear()
    gc.collect()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(0)


def _end_of(request, path):
    try:
        _execute(request, path)
    except SystemExit as error:
        return {"ending": "finished" if not error.code else "SystemExit", "words": str(error.code)}
    except BaseException as error:  # noqa: BLE001  # whatever ended it is the answer
        return {"ending": type(error).__name__, "words": str(error)[:2000]}
    return {"ending": "finished", "words": ""}


def _execute(request, path):
    module = types.ModuleType("__main__")
    module.__file__ = path
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
