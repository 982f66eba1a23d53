"""Placeholders for network and process calls that the jail lacks: they fail with the check's words.

Only the words change: what a library raises, and when, stays as the system has it, so that programs which expect such
a failure still catch it.
"""

import functools
import importlib.abc
import importlib.machinery
import os
import socket
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from toolfold_guest.shared.reserved_names import NETWORK, PROCESS, message

_MOST_CPUS = 16
_STARTS_PROCESSES = frozenset(
    {"concurrent.futures.process", "multiprocessing", "multiprocessing.managers", "multiprocessing.pool"}
)
_SYSTEM_FAILED = (-1, 127 << 8)
"""What `os.system` gives where the system starts no process."""


def prepare() -> None:
    """In the zygote, whose own calls succeed and so are not touched by any of this."""
    _tell(socket.socket, "__init__", "socket", NETWORK)
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        _tell(socket, name, "socket", NETWORK)
    _tell(subprocess.Popen, "_execute_child", "subprocess", PROCESS)
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
        _tell(os, name, f"os.{name}", PROCESS)
    _tell(sys.modules.get("_posixsubprocess"), "fork_exec", "subprocess", PROCESS)
    if hasattr(os, "statvfs"):
        _replace(os, "statvfs", _without_shared_memory(os.statvfs))
    # Its semaphores, which threads use as well, would need a shared file.
    sys.modules["_multiprocessing"] = module = types.ModuleType("_multiprocessing")
    module.__getattr__ = _semaphores  # type: ignore[method-assign]  # of a module, which has it from its dict
    sys.meta_path.insert(0, _ProcessFinder())
    for name in ("cpu_count", "process_cpu_count"):
        if hasattr(os, name):
            _replace(os, name, _with_most_cpus(getattr(os, name)))


class _ProcessFinder(importlib.abc.MetaPathFinder):
    """Has `multiprocessing` and `ProcessPoolExecutor` start threads."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _STARTS_PROCESSES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            process_threads = importlib.import_module("toolfold_guest.stdlib.process_threads")
            spec.loader = process_threads.Loader(spec.loader)
        return spec


def _with_most_cpus(count: Callable[[], int | None]) -> Callable[[], int | None]:
    """A pool has as many workers by default, and a program can have few threads."""

    @functools.wraps(count)
    def wrapper() -> int | None:
        return min(count() or 1, _MOST_CPUS)

    return wrapper


def _without_shared_memory(statvfs: Callable[..., Any]) -> Callable[..., Any]:
    """There is no room in `/dev/shm`, so `multiprocessing.Value` takes the temporary folder."""

    @functools.wraps(statvfs)
    def wrapper(path: Any) -> Any:
        try:
            return statvfs(path)
        except OSError:
            if path != "/dev/shm":
                raise
            return os.statvfs_result((0,) * 10)

    return wrapper


def _semaphores(name: str) -> Any:
    return getattr(importlib.import_module("toolfold_guest.stdlib.interpreter_patches"), name)


def _tell(owner: Any, name: str, module: str, reason: str) -> None:
    function = getattr(owner, name, None)
    if function is not None:
        _replace(owner, name, _telling(function, module, reason))


def _replace(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    function = getattr(owner, name)
    setattr(owner, name, replacement)
    # Where it came from, too: `os.system` is pickled as `posix.system`, and must be the same there.
    home = sys.modules.get(function.__module__ or "")
    if getattr(home, name, None) is function:
        setattr(home, name, replacement)


def _telling(function: Callable[..., Any], module: str, reason: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except OSError as error:
            raise type(error)(error.errno, message(module, reason)) from None
        if module == "os.system" and result in _SYSTEM_FAILED:
            raise PermissionError(1, message(module, reason))
        return result

    return wrapper
