"""What a program asks of the machine, told by the interpreter's own audit events while plain CPython runs it.

Imported by path in `child.py`. `start` names a file: one line for each new kind of question.
"""

import contextlib
import json
import os
import sys
import sysconfig
import tempfile

_EVENTS = {
    "socket.connect": "network", "socket.bind": "network", "socket.getaddrinfo": "network",
    "socket.gethostbyname": "network", "socket.gethostname": "network", "socket.sendto": "network",
    "socket.getnameinfo": "network", "socket.gethostbyaddr": "network", "urllib.Request": "network",
    "subprocess.Popen": "processes", "os.fork": "processes", "os.forkpty": "processes", "os.exec": "processes",
    "os.posix_spawn": "processes", "os.spawn": "processes", "os.system": "processes", "os.kill": "processes",
    "os.killpg": "processes", "pty.spawn": "processes", "signal.pthread_kill": "processes",
    "webbrowser.open": "display",
}  # fmt: skip
_ON_FILES = frozenset(
    {"open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.chmod", "os.chown",
     "os.link", "os.symlink", "os.truncate", "os.utime", "os.chdir", "os.walk", "os.fwalk", "os.getxattr",
     "os.setxattr", "os.listxattr", "sqlite3.connect", "shutil.rmtree", "ctypes.dlopen", "os.chflags"}
)  # fmt: skip
_DISPLAY = frozenset({"tkinter", "_tkinter", "turtle", "curses", "_curses", "idlelib"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_MOST = 60

_state = {"file": -1, "process": 0, "seen": set(), "is_busy": False}
_roots = tuple(
    {os.path.realpath(root) for root in (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sys.exec_prefix)}
)
_temporary = (os.path.realpath(tempfile.gettempdir()),)
_FREE = frozenset({"/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"})


def prepare():
    """Questions that have no audit event; these modules are imported anyway where they are used."""
    with contextlib.suppress(ImportError):
        from multiprocessing import shared_memory, synchronize

        _note_calls(synchronize.SemLock, "__init__", "processes", "a semaphore of multiprocessing")
        _note_calls(shared_memory.SharedMemory, "__init__", "processes", "shared memory")
    with contextlib.suppress(ImportError):
        import _tkinter

        _note_calls(_tkinter, "create", "display", "a window")
    sys.addaudithook(_hook)


def start(path, process):
    _state.update(file=os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), process=process)


def stop():
    _state["file"] = -1


def _note_calls(owner, name, kind, detail):
    function = getattr(owner, name)

    def noted(*args, **kwargs):
        _note(kind, detail)
        return function(*args, **kwargs)

    setattr(owner, name, noted)


def _hook(event, args):
    if _state["file"] < 0 or _state["is_busy"] or os.getpid() != _state["process"]:
        return
    _state["is_busy"] = True
    try:
        _judge(event, args)
    except Exception:  # noqa: BLE001  # a hook that raises would stop the program
        pass
    finally:
        _state["is_busy"] = False


def _judge(event, args):
    kind = _EVENTS.get(event)
    if kind:
        _note(kind, event)
    elif event == "socket.__new__":
        if not _is_of_a_loop():
            _note("network", event)
    elif event == "import":
        if args[0].partition(".")[0] in _DISPLAY:
            _note("display", args[0])
    elif event in _ON_FILES:
        for path in args[:2] if event in ("os.rename", "os.link", "os.symlink") else args[:1]:
            if isinstance(path, str | bytes | os.PathLike) and _is_of_the_host(path, event, args):
                _note("host files", f"{event} {os.fsdecode(path)}")


def _is_of_a_loop():
    """Whether an event loop makes the pair of sockets that wakes it."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_make_self_pipe":
            return True
        frame = frame.f_back
    return False


def _is_of_the_host(path, event, args):
    if event in ("ctypes.dlopen", "sqlite3.connect") and os.sep not in os.fsdecode(path):
        return False
    full = os.path.realpath(os.fsdecode(path))
    if full in _FREE or full.startswith(_temporary) or "__pycache__" in full:
        return False
    writes = event not in ("open", "os.listdir", "os.scandir", "os.walk", "os.chdir", "ctypes.dlopen") or (
        event == "open" and isinstance(args[2], int) and args[2] & _WRITES
    )
    # A file that is not there either is the same question with the same answer.
    return writes or (not full.startswith(_roots) and os.path.exists(full))


def _note(kind, detail):
    if _state["file"] < 0 or os.getpid() != _state["process"]:
        return
    test = getattr(sys.modules.get("__main__"), "current_test", "")
    line = json.dumps([kind, str(test), detail[:200]])
    seen = _state["seen"]
    if (kind, test) not in seen and len(seen) < _MOST * 50:
        seen.add((kind, test))
        os.write(_state["file"], line.encode() + b"\n")
