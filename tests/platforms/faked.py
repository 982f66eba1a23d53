"""Fake platform of an interpreter: what the modules of toolfold see of the system is that of macOS or Windows.

Runs as the `sitecustomize` of an environment of its own, so that each process that toolfold starts has it, too. The
standard library and other packages keep the real system, which they need to work here; each of them runs on those
systems by itself. What does not exist there is missing, by what typeshed says of each platform; what exists and
refuses (descriptors of folders, readers on an event loop, the deletion of an open file) refuses.
"""

import asyncio
import builtins
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any, Final

REGISTRY: Final = "toolfold.engines.registry"
NOTES_VARIABLE: Final = "TOOLFOLD_TEST_NOTES"
"""Set, it leaves `auto` as it is, which says why it does not choose the process engine."""
OURS: Final = ("toolfold", "toolfold_guest")
_STANDARD: Final = os.path.dirname(os.__file__)


class FakeModule(ModuleType):
    """A module without some of its names, and with others."""

    def __init__(self, real: ModuleType, missing: list[str], names: Mapping[str, Any]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update({"_real": real, "_missing": frozenset(missing), **names})

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def install(platform: str, missing: Mapping[str, list[str] | None]) -> None:
    """Fake `darwin` or `win32`, or choose the engine of both on `linux`; `missing` has the names that each module lacks, or `None` if there is no such module."""
    fakes: dict[str, ModuleType] = {"sys": FakeModule(sys, [], {"platform": platform})}
    additions = {"os": _windows_os(missing["os"] or [])} if platform == "win32" else {}
    for name, names in missing.items():
        if names is not None:
            fakes[name] = FakeModule(__import__(name), names, additions.get(name, {}))
    if platform == "win32":
        fakes["msvcrt"] = _console_and_locks()
    blocked = {name for name, names in missing.items() if names is None}
    real_import = builtins.__import__

    def fake_import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and globals is not None and (name in fakes or name in blocked) and _is_ours(globals):
            if name in blocked:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return fakes[name]
        module = real_import(name, globals, locals, fromlist, level)
        if REGISTRY in sys.modules and not os.environ.get(NOTES_VARIABLE):
            choices = getattr(sys.modules[REGISTRY], "BUILT_IN", {})
            if "auto" in choices:
                choices["auto"] = "toolfold_faked:quiet_engine"
        return module

    sys.modules["toolfold_faked"] = sys.modules[__name__]
    builtins.__import__ = fake_import
    if platform != "linux":
        sys.addaudithook(_audit_windows if platform == "win32" else _audit_darwin)
    if platform == "win32":
        _refuse_of_event_loops()
        _refuse_of_processes()


def quiet_engine(settings: Any, /, **_: Any) -> Any:
    """What `auto` chooses here, without its words on that: tests compare all of an outcome."""
    from toolfold.engines.wasm import WasmEngine  # only once the library is loaded

    engine = WasmEngine.from_settings(settings)
    engine.notes = ()
    return engine


def _is_ours(names: Mapping[str, Any]) -> bool:
    spec = names.get("__spec__")
    module = spec.name if spec is not None else str(names.get("__name__"))
    return module.partition(".")[0] in OURS


def _is_called_by_us() -> bool:
    """Whether the nearest caller outside of the standard library is toolfold."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals is globals():
            frame = frame.f_back
            continue
        file = frame.f_code.co_filename
        is_standard = file.startswith(("<", _STANDARD)) and "site-packages" not in file
        if not is_standard or _is_ours(frame.f_globals):
            return _is_ours(frame.f_globals)
        frame = frame.f_back
    return False


# ----------------------------------------------------------------------------------------------------
# macOS


def _audit_darwin(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir") and str(arguments[0]).startswith("/proc") and _is_called_by_us():
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


# ----------------------------------------------------------------------------------------------------
# Windows


def _windows_os(missing: list[str]) -> dict[str, Any]:
    names: dict[str, Any] = {"name": "nt", "linesep": "\r\n", "supports_dir_fd": frozenset()}
    for name in ("access", "mkdir", "open", "remove", "rename", "replace", "rmdir", "stat", "unlink", "utime"):
        names[name] = _without_folders(getattr(os, name))
    return {name: value for name, value in names.items() if name not in missing}


def _console_and_locks() -> ModuleType:
    """The module `msvcrt`: a console on which nothing is typed, and locks."""
    import fcntl  # what stands in for them here

    def locking(descriptor: int, mode: int, _: int) -> None:
        fcntl.flock(descriptor, mode)

    names = {"LK_NBLCK": fcntl.LOCK_EX | fcntl.LOCK_NB, "LK_UNLCK": fcntl.LOCK_UN, "locking": locking}
    return FakeModule(ModuleType("msvcrt"), [], {**names, "kbhit": lambda: False})


def _without_folders(function: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*arguments: Any, **options: Any) -> Any:
        if any(options.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
            raise NotImplementedError("dir_fd unavailable on this platform")
        return function(*arguments, **options)

    return refuse


_BY_FOLDER: Final = ("shutil", "tempfile")
"""Modules that open folders on Linux, to delete trees and to make temporary files, and not on Windows."""


class _Own(threading.local):
    is_looking = False


_own = _Own()


def _audit_windows(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("open", "os.listdir", "os.remove", "os.rename", "os.rmdir"):
        return
    if _own.is_looking:
        return
    path = arguments[0]
    if event == "os.listdir" and isinstance(path, int) and _is_called_by_us():
        raise TypeError("listdir: path should be string, bytes, os.PathLike or None, not int")
    if not isinstance(path, str | bytes | os.PathLike) or not _is_called_by_us():
        return
    path = os.fsdecode(path)
    if path.startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", path)
    if event == "open" and os.path.isdir(path) and sys._getframe(1).f_globals["__name__"] not in _BY_FOLDER:
        raise PermissionError(13, "Permission denied", path)
    if event in ("os.remove", "os.rename"):
        for each in (path, arguments[1]) if event == "os.rename" else (path,):
            if _is_open(os.fsdecode(each)):
                raise PermissionError(13, "The process cannot access the file", each)


def _is_open(path: str) -> bool:
    """Whether this process has the file open: then Windows neither deletes nor replaces it."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode):
        return False
    _own.is_looking = True
    try:
        numbers = [int(number) for number in os.listdir("/proc/self/fd")]
    finally:
        _own.is_looking = False
    for number in numbers:
        try:
            if os.path.samestat(os.fstat(number), status):
                return True
        except OSError:
            continue
    return False


def _refuse_of_event_loops() -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError

    loop: Any = asyncio.SelectorEventLoop
    for name in (
        "add_reader", "add_writer", "remove_reader", "remove_writer", "add_signal_handler", "remove_signal_handler",
        "create_unix_connection", "create_unix_server",
    ):  # fmt: skip
        setattr(loop, name, _for_others(getattr(loop, name), refuse))
    # It takes pipes that were made for it, not those that a process was started with.
    loop.connect_read_pipe = _for_others(loop.connect_read_pipe, refuse)


def _refuse_of_processes() -> None:
    real: Any = subprocess.Popen.__init__

    def start(self: Any, *arguments: Any, **options: Any) -> None:
        if _is_called_by_us():
            for name in ("pass_fds", "preexec_fn"):
                if options.get(name):
                    raise ValueError(f"{name} is not supported on Windows platforms")
        real(self, *arguments, **options)

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]


def _for_others(function: Callable[..., Any], refuse: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*arguments: Any, **options: Any) -> Any:
        return (refuse if _is_ours(sys._getframe(1).f_globals) else function)(*arguments, **options)

    return choose
