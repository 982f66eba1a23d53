"""What Ray runs on each node: a process engine behind a few methods that take and return bytes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Any, Final

import msgspec

from toolfold.engines.process import ProcessEngine
from toolfold.engines.process.doctor import Diagnosis, examine
from toolfold.engines.ray.direct import DirectServer
from toolfold.engines.ray.node import Node
from toolfold.errors import ToolfoldError
from toolfold.models import Isolation, Limits
from toolfold.protocol.codec import decoder, encode


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine of a node is made."""

    limits: Limits
    isolation: str = "namespace"
    warm: int = 2
    host_libraries: bool = False
    host: str = ""
    """Where the node listens for the runtime's own connection; empty: all goes through Ray."""
    max_kept_guests: int
    max_kept_bytes: int
    own_tools: bytes = b""
    make_own_tools: str = ""
    """As in `OwnTools`; empty: all calls go to the runtime."""


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How its start went."""

    toolfold: str
    python: str
    error: str = ""
    isolation: str = ""
    notes: tuple[str, ...] = ()
    modules: frozenset[str] | None = None
    port: int = 0
    token: bytes = b""
    """Of the node's own port; 0 if it has none."""


_options: Final = decoder(NodeOptions)
_answer: Final = decoder(NodeAnswer)
_diagnosis: Final = decoder(Diagnosis)
_PARENT_SECONDS: Final = 0.5


def examine_here(required: Isolation) -> bytes:
    """What `toolfold doctor` finds on the node that runs this."""
    return encode(asyncio.run(examine(required)))


def read_diagnosis(body: bytes) -> Diagnosis:
    """What `examine_here` returned."""
    return _diagnosis.decode(body)


def read_answer(body: bytes) -> NodeAnswer:
    """What `NodeActor.start` returned."""
    return _answer.decode(body)


class NodeActor:
    """One on each node. Its engine ends with its process, and its process with the runtime's."""

    def __init__(self) -> None:
        self._engine: ProcessEngine | None = None
        self._node: Node | None = None
        self._server: DirectServer | None = None
        self._parent: asyncio.Task[None] | None = None

    async def start(self, body: bytes) -> bytes:
        """Make the engine, and say what it can do, or why it cannot be made."""
        said: dict[str, Any] = {"toolfold": version("toolfold"), "python": platform.python_version()}
        try:
            options = _options.decode(body)
            own = resolve_name(options.make_own_tools)(options.own_tools) if options.make_own_tools else None
            engine = ProcessEngine(
                isolation=options.isolation, limits=options.limits, warm=options.warm,
                host_libraries=options.host_libraries, max_kept_guests=options.max_kept_guests,
                max_kept_bytes=options.max_kept_bytes,
            )  # fmt: skip
            self._engine = await engine.__aenter__()
        except (ToolfoldError, msgspec.MsgspecError, OSError) as error:
            return encode(NodeAnswer(**said, error=str(error)))
        self._node = Node(engine, own)
        self._parent = asyncio.create_task(self._watch_parent(os.getppid()))
        if options.host:
            self._server = DirectServer(self._node, self._leave)
            # Not without it: everything can go through Ray instead.
            with contextlib.suppress(OSError):
                said["port"], said["token"] = await self._server.open(options.host)
        modules = engine.capabilities.modules
        return encode(NodeAnswer(**said, isolation=engine.isolation, notes=engine.notes, modules=modules))

    async def send(self, number: int, body: bytes) -> None:
        """A message of the runtime."""
        assert self._node is not None, "it was started"
        self._node.receive(number, body)

    async def listen(self) -> bytes:
        """The next message for the runtime."""
        assert self._node is not None, "it was started"
        return await self._node.listen()

    async def _watch_parent(self, raylet: int) -> None:
        """Leave with the raylet: without it the node is lost. Ray's own check takes a zombie for a living one."""
        while os.getppid() == raylet:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_PARENT_SECONDS)
        await self._leave()

    async def _leave(self) -> None:
        """The runtime or the raylet is gone. Ray may be slow to see that, or may be gone itself."""
        await self.stop()
        os._exit(0)

    async def stop(self) -> None:
        """End every guest."""
        if self._parent is not None and self._parent is not asyncio.current_task():
            self._parent.cancel()
        if self._server is not None:
            self._server.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.__aexit__(None, None, None)
