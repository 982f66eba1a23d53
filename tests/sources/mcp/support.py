"""Bridges over the fixture servers beside this file."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types

from toolfold.models import Value
from toolfold.sources.mcp import Bridge, Server
from toolfold.sources.mcp.connection import Era, EraCache
from toolfold.tools.tool import Tool

HERE = Path(__file__).parent


def raw(name: str = "raw", *args: str, **fields: Any) -> Server:
    return Server(name=name, command=sys.executable, args=["-S", "-E", str(HERE / "raw_server.py"), *args], **fields)


def sdk(name: str = "sdk", **fields: Any) -> Server:
    return Server(name=name, command=sys.executable, args=[str(HERE / "sdk_server.py")], **fields)


def remember(path: Path, era: Era, *servers: Server) -> Path:
    """A file of eras that spares these servers the question."""
    eras = EraCache(path)
    for server in servers:
        eras.put(server.identity, era)
    return path


def tool(bridge: Bridge, name: str) -> Tool:
    return next(one for one in bridge.tools() if one.spec.name == name)


async def call(bridge: Bridge, name: str, /, **arguments: Value) -> Value:
    return await tool(bridge, name).call(arguments)


async def until(condition: Any, seconds: float = 60.0) -> None:
    """Wait for something that no event tells of."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


@contextmanager
def serving(script: str, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """A fixture server that listens on a port; give it `--http PORT`."""
    process = subprocess.Popen([sys.executable, str(HERE / script), *args], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def listening(port: int) -> None:
    """Until somebody listens there."""

    def is_there() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    await until(is_there)


class FakeOuter:
    """A client outside that answers what it was told to."""

    def __init__(self, *, can_elicit: bool = False, has_roots: bool = False) -> None:
        self.can_elicit = can_elicit
        self.has_roots = has_roots
        self.asked: list[tuple[str, str, str]] = []
        self.reported: list[tuple[str, str, str, float, float | None, str]] = []
        self.logged: list[tuple[str, str, Any]] = []
        self.answer = types.ElicitResult(action="accept", content={"name": "Ann"})

    async def elicit(self, params: types.ElicitRequestParams, *, server: str, execution_id: str) -> types.ElicitResult:
        self.asked.append((server, execution_id, params.message))
        return self.answer

    async def roots(self) -> Sequence[types.Root]:
        return [types.Root.model_validate({"uri": "file:///project", "name": "project"})]

    def progress(
        self, *, server: str, tool: str, execution_id: str, progress: float, total: float | None, message: str
    ) -> None:
        self.reported.append((server, tool, execution_id, progress, total, message))

    def log(self, *, server: str, level: str, data: Any) -> None:
        self.logged.append((server, level, data))
