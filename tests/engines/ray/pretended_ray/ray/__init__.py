"""A stand-in for Ray with one node, this process. Like Ray, it ends the process when the head is away for too long.

`PRETENDED_HEAD` names a file: while it is there, the head is away. Each process that is ended adds a line to it.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from ray import exceptions
from ray._private import state

__all__ = ["_private", "exceptions"]
_connection = {"is_open": False}


class _private:  # noqa: N801 - Ray's own name
    state = state


def is_initialized() -> bool:
    return _connection["is_open"]


def init(**options: Any) -> None:
    _connection["is_open"] = True


def shutdown() -> None:
    _connection["is_open"] = False


def nodes() -> list[dict[str, Any]]:
    if os.path.exists(os.environ["PRETENDED_HEAD"]):
        with open(os.environ["PRETENDED_HEAD"], "a") as file:
            file.write("ended\n")
        os._exit(1)
    return [
        {"Alive": True, "NodeID": "1", "NodeManagerAddress": "127.0.0.1", "NodeManagerPort": 1, "Resources": {"CPU": 1}}
    ]


def kill(actor: Any) -> None:
    pass


def remote(kind: Callable[[], Any]) -> "_Kind":
    return _Kind(kind)


class _Kind:
    def __init__(self, kind: Callable[[], Any]) -> None:
        self._kind = kind

    def options(self, **options: Any) -> "_Kind":
        return self

    def remote(self) -> "_Actor":
        return _Actor(self._kind())


class _Actor:
    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> "_Method":
        return _Method(_end if name == "__ray_terminate__" else getattr(self._actor, name))


class _Method:
    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def remote(self, *arguments: Any) -> Any:
        return asyncio.ensure_future(self._method(*arguments))


async def _end() -> None:
    pass
