"""Module `tools` of a `python3` that a bash program starts: each tool as a synchronous function.

Speaks to the supervisor through the same folder as the functions of bash; see `toolfold_guest.shared.bash_functions`.
"""

import json
import opcode
import os
import sys
from collections.abc import Callable
from typing import Any

from toolfold_guest.shared.bash_functions import ABSENT, FOLDER_VARIABLE, NO_ROOM, NOT_CALLED, bash_name


class ToolError(Exception):
    """A tool failed; the text is its message."""


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__") or bash_name(name) not in _names():
        frame = sys._getframe(1)
        # With an `AttributeError` a `from tools import ...` would say less.
        is_import = frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]
        names = ", ".join(_names()) or "none"
        text = f"no tool {name!r}; the tools of this program are: {names}{ABSENT}"
        raise ImportError(text) if is_import else AttributeError(text)

    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 or (args and (kwargs or not isinstance(args[0], dict))):
            raise TypeError(f"{name}() takes keyword arguments, or one dict of them")
        return _call(bash_name(name), json.dumps(args[0] if args else kwargs))

    function.__name__ = name
    return function


def __dir__() -> list[str]:
    return [*_names(), "ToolError"]


def _names() -> list[str]:
    return sorted(os.listdir(_path("bin")))


def _path(name: str) -> str:
    return f"{os.environ[FOLDER_VARIABLE]}/{name}"


def _call(name: str, arguments: str) -> Any:
    with open(_path("free"), "rb", buffering=0) as pipe:
        slot = pipe.read(1).decode()
    try:
        with open(_path(f"arguments.{slot}"), "w", encoding="utf-8") as file:
            file.write(arguments)
    except OSError:
        _release(slot)
        raise ToolError(f"{name}: {NOT_CALLED}") from None
    with open(_path("calls"), "wb", buffering=0) as pipe:
        pipe.write(f"{slot} {os.getpid()} 0 {name}\n".encode())
    with open(_path(f"reply.{slot}"), "rb", buffering=0) as pipe:
        status = pipe.read(1)
    with open(_path(f"value.{slot}"), "r+", encoding="utf-8") as file:
        text = file.read()
        file.truncate(0)
    _release(slot)
    if status != b"0":
        raise ToolError(text if status == b"1" else f"{name}: {NO_ROOM}")
    return json.loads(text)


def _release(slot: str) -> None:
    with open(_path("free"), "wb", buffering=0) as pipe:
        pipe.write(slot.encode())
