"""Whether a server is there, and what it offers: what others ask its keeper about. Connects to nothing."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from toolfold.sources.mcp.connection import Connection
from toolfold.sources.mcp.remembered import Known, Remembered
from toolfold.sources.mcp.server import Server, ServerStatus, State
from toolfold.sources.mcp.stdio import ServerProcess

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Link:
    """A transport in use."""

    # Any: what the SDK's streams carry when they fail.
    streams: tuple[ReadStream[Any], WriteStream[SessionMessage]]
    ended: asyncio.Event
    process: ServerProcess | None = None


@dataclass(frozen=True, slots=True)
class Established:
    """A connection that has listed its tools, and what it runs on."""

    connection: Connection
    link: Link


class Presence:
    """Where a server stands between two attempts to connect."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.state: State = "connecting"
        self.detail = ""
        self.established: Established | None = None
        self._version = ""
        self._instructions = ""
        self.settled = asyncio.Event()
        """It has listed its tools, or failed; one that failed is not waited for again."""
        self.attempted = asyncio.Event()
        """Set, and replaced by a new one, when an attempt to connect has ended."""

    def status(self, tools: int) -> ServerStatus:
        return ServerStatus(
            name=self._name,
            state=self.state,
            tools=tools,
            detail=self.detail,
            era=self._version,
            instructions=self._instructions,
        )

    def establish(self, established: Established) -> None:
        connection = established.connection
        self.established = established
        self._version, self._instructions = connection.version, connection.instructions

    def become(self, state: State, detail: str) -> None:
        self.state, self.detail = state, detail
        if state == "connecting":
            self.settled.clear()
            return
        self.settled.set()
        # A new event first: whoever is woken may wait for the next attempt at once.
        attempted, self.attempted = self.attempted, asyncio.Event()
        attempted.set()

    def fail(self, why: str) -> None:
        self.established = None
        if (self.state, self.detail) != ("failed", why):
            _log.warning("server %r: %s", self._name, why)
        self.become("failed", why)

    def end(self) -> None:
        """There will be no further attempt, so nobody waits for one from now on."""
        self.established = None
        self.detail = "the bridge is closed"
        self.settled.set()
        self.attempted.set()


class Listing:
    """The tools of a server: those of last time until it has listed them itself, and while it is away."""

    def __init__(self, server: Server, remembered: Remembered) -> None:
        known = remembered.get(server)
        self._server = server
        self._remembered = remembered
        self.tools = known.tools
        self.capabilities = known.capabilities
        self._is_confirmed = False

    def confirm(self, connection: Connection, tools: list[types.Tool]) -> bool:
        """A connection has begun with these; whether anything is new, which is remembered then."""
        is_new = not self._is_confirmed or self.capabilities != connection.capabilities
        self.capabilities, self._is_confirmed = connection.capabilities, True
        return self.update(tools, is_new=is_new)

    def update(self, tools: list[types.Tool], *, is_new: bool = False) -> bool:
        """The same in the middle of a connection."""
        is_new = is_new or self.tools != tuple(tools)
        self.tools = tuple(tools)
        if is_new:
            self._remembered.put(self._server, Known(self.tools, self.capabilities))
        return is_new
