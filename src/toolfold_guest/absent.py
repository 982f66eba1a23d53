"""Calls that need what the jail does not have: they fail with the words of the check, not with a bare error number.

Only the words change: what a library raises, and when, stays as the system has it, so that programs which expect such
a failure still catch it.
"""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

_FEW = 6
_NETWORK = "there is no network"
_PROCESS = "no process can be started"

_SYSTEM_FAILED = (-1, 127 << 8)
"""What `os.system` gives where the system starts no process."""

_tools: list[Mapping[str, int]] = [{}]


def prepare() -> None:
    """In the zygote, whose own calls succeed and so are not touched by any of this."""
    _tell(socket.socket, "__init__", "socket", _NETWORK)
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        _tell(socket, name, "socket", _NETWORK)
    _tell(subprocess.Popen, "_execute_child", "subprocess", _PROCESS)
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
        _tell(os, name, f"os.{name}", _PROCESS)


def name_tools(tools: Mapping[str, int]) -> None:
    """What to call instead, in this program."""
    _tools[0] = tools


def _tell(owner: Any, name: str, module: str, reason: str) -> None:
    function = getattr(owner, name, None)
    if function is None:
        return
    told = _telling(function, module, reason)
    setattr(owner, name, told)
    # Where it came from, too: `os.system` is pickled as `posix.system`, and must be the same there.
    home = sys.modules.get(function.__module__ or "")
    if getattr(home, name, None) is function:
        setattr(home, name, told)


def _telling(function: Callable[..., Any], module: str, reason: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except OSError as error:
            raise type(error)(error.errno, _message(module, reason)) from None
        if module == "os.system" and result in _SYSTEM_FAILED:
            raise PermissionError(1, _message(module, reason))
        return result

    return told


def _message(module: str, reason: str) -> str:
    names = list(_tools[0])
    few = ", ".join(names[:_FEW]) + (", ..." if len(names) > _FEW else "")
    instead = f"; call a tool instead: {few}" if names else ", and this program has no tools"
    return f"{module!r} cannot work here: {reason}{instead}"
