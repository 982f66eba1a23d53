"""Supervisor of one MCP server: connects, lists its tools, notices when it dies, and reconnects.

1. No server waits for another: each supervisor is a task of its own.
2. A lost connection is opened anew at once, except after several short ones; one that cannot be
   opened, after 0.5 s, 1 s, ... 60 s.
   A call for a server that is away waits for the next attempt, which it hurries to half a second.
3. A call is made a second time only if nothing of it was written, or if doing it twice does no harm.
4. The tools of a server that is away stay listed: a program may wait for it, and the text tells why.
   Before it is there for the first time, they are those of last time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from toolfold.errors import ServerHungUp, ToolError, ToolFailed, ToolUnreachable
from toolfold.sources.mcp import transports
from toolfold.sources.mcp.connection import Era, EraCache, McpConnection, Outer, open_session
from toolfold.sources.mcp.oauth import SignIn
from toolfold.sources.mcp.server_definition import ListingStore, Server, ServerListing, ServerState, ServerStatus
from toolfold.sources.mcp.transports import NotSent, ServerProcess, WatchedStream, start_server
from toolfold.tools.error_text import mask_secrets

# ----------------------------------------------------------------------------------------------------
# State of a server, and its tools. Connects to nothing.

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTransport:
    """A transport in use."""

    # Any: what the SDK's streams carry when they fail.
    streams: tuple[ReadStream[Any], WriteStream[SessionMessage]]
    ended: asyncio.Event
    process: ServerProcess | None = None


@dataclass(frozen=True, slots=True)
class EstablishedConnection:
    """Connection that has listed its tools, and its transport."""

    connection: McpConnection
    transport: ServerTransport


class Presence:
    """State of a server between two attempts to connect."""

    def __init__(self, name: str) -> None:
        self.status = ServerStatus(name=name, state="connecting")
        self.established: EstablishedConnection | None = None
        self.settled = asyncio.Event()
        """Set when it has listed its tools, or failed; one that failed is not waited for again."""
        self.attempted = asyncio.Event()
        """Set, and replaced by a new one, when an attempt to connect has ended."""

    def establish(self, established: EstablishedConnection) -> None:
        connection = established.connection
        self.established = established
        self.status = replace(self.status, era=connection.version, instructions=connection.instructions)

    def become(self, state: ServerState, detail: str) -> None:
        self.status = replace(self.status, state=state, detail=detail)
        if state == "connecting":
            self.settled.clear()
            return
        self.settled.set()
        # A new event first: whoever is woken may wait for the next attempt at once.
        attempted, self.attempted = self.attempted, asyncio.Event()
        attempted.set()

    def fail(self, reason: str) -> None:
        self.established = None
        if (self.status.state, self.status.detail) != ("failed", reason):
            _log.warning("server %r: %s", self.status.name, reason)
        self.become("failed", reason)

    def end(self) -> None:
        """Wake everyone: there will be no further attempt."""
        self.established = None
        self.status = replace(self.status, detail="the bridge is closed")
        self.settled.set()
        self.attempted.set()


class CurrentListing:
    """Tools of a server: those of last time until it has listed them itself, and while it is away."""

    def __init__(self, server: Server, store: ListingStore) -> None:
        self._server = server
        self._store = store
        self.listing = store.get(server)
        self._is_confirmed = False

    def update(self, connection: McpConnection, tools: list[types.Tool]) -> bool:
        """Take what a connection lists, and store it if anything changed; whether it did."""
        listing = ServerListing(tuple(tools), connection.capabilities)
        if self._is_confirmed and listing == self.listing:
            return False
        self.listing, self._is_confirmed = listing, True
        self._store.put(self._server, listing)
        return True


FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 5.0
MAX_LOSSES: Final = 3
"""Connections in a row that were lost sooner than that; then there is a pause before the next."""
_GATHER_SECONDS: Final = 0.05
"""Changes within this time count as one."""
_EXIT_SECONDS: Final = 0.5
_SHOWN_CHARACTERS: Final = 600
_NOT_SSE: Final = ("HTTP 400", "HTTP 404", "HTTP 405", "HTTP 406", "no answer within")

_Result = TypeVar("_Result")


class ServerSupervisor:
    """Supervisor of one server."""

    def __init__(
        self, server: Server, *, outer: Outer | None, eras: EraCache, listings: ListingStore, tokens: Path,
        on_change: Callable[[], None], on_sign_in: Callable[[str, str], None],
    ) -> None:  # fmt: skip
        self.server = server
        self._current = CurrentListing(server, listings)
        self._presence = Presence(server.name)
        self._outer = outer
        self._eras = eras
        self._on_change = on_change
        self._on_sign_in = on_sign_in
        self._auth = SignIn(server, tokens, self._wait_for_person) if server.auth is not None else None
        self._deadline: asyncio.Timeout | None = None
        self._stale = asyncio.Event()
        self._reconnect_requested = asyncio.Event()
        """Set when a call waits for the server, so that the next attempt need not."""
        self._ready_at = math.inf

    @property
    def tools(self) -> tuple[types.Tool, ...]:
        return self._current.listing.tools

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self._current.listing.capabilities

    @property
    def status(self) -> ServerStatus:
        return replace(self._presence.status, tools=len(self.tools))

    async def settled(self) -> None:
        """Wait until it has listed its tools, or failed; one that failed is not waited for again."""
        await self._presence.settled.wait()

    async def run(self) -> None:
        """Keep the server connected; cancel it to end the server."""
        try:
            await self._keep()
        finally:
            self._presence.end()

    async def _keep(self) -> None:
        loop, failures, losses = asyncio.get_running_loop(), 0, 0
        while True:
            self._ready_at = math.inf
            try:
                await self._attempt()
                reason = ""
            # Whatever a transport or a server's strange answer raises, the next attempt may go well.
            except Exception as error:
                if _is_cancelled():
                    raise asyncio.CancelledError from error
                reason = _error_text(error) + self._transport_hint(error)
            self._presence.established = None
            if self._presence.status.state == "ready":
                self._presence.become("connecting", reason)
            if self._ready_at == math.inf:
                failures += 1
            else:
                failures = 0
                losses = 0 if loop.time() - self._ready_at > STEADY_SECONDS else losses + 1
            if failures or losses > MAX_LOSSES:
                self._presence.fail(reason or self._presence.status.detail or "the connection was lost again and again")
                await self._pause(min(FIRST_WAIT_SECONDS * 2 ** max(failures - 1, 0), LONGEST_WAIT_SECONDS))

    def _transport_hint(self, error: Exception) -> str:
        """What to try where a URL speaks the other transport; some servers leave its first request open."""
        text = _error_text(error)
        if self.server.transport == "sse" and text.startswith(_NOT_SSE):
            return "; if it is a streamable HTTP server, set transport: http"
        if self.server.transport == "http" and text.startswith("HTTP 405"):
            return "; if it is an SSE server, set transport: sse"
        return ""

    async def retry(self) -> None:
        """Hurry the next attempt of a server that is away, and wait for its end."""
        if self._presence.established is None:
            self._reconnect_requested.set()
            await self._presence.attempted.wait()

    # calls

    async def call(self, work: Callable[[McpConnection], Awaitable[_Result]], *, may_repeat: bool) -> _Result:
        """Do something on the connection, when there is one.

        Raises:
            ToolUnreachable: the server is away, or was lost in the middle.
            ToolFailed: it refused the request.
            ToolError: it failed in another way.
        """
        is_second = False
        while True:
            established = await self._wait_until_ready()
            try:
                return await work(established.connection)
            except NotSent:
                may_have_run, reason = False, ""
            except MCPError as error:
                fate = _fate(error, established.transport)
                if fate is None:
                    raise _refusal(error) from error
                may_have_run, reason = fate
            reason = await self._drop_connection(established, reason)
            if is_second or (may_have_run and not may_repeat):
                ran = "it may have run, so it was not repeated" if may_have_run else "nothing ran"
                raise self._unreachable(f"was lost during the call; {ran}{_suffix(reason)}")
            is_second = True

    async def tell_roots_changed(self) -> None:
        """Notify the server; one that is away asks when it is back."""
        if self._presence.established is not None:
            with contextlib.suppress(MCPError, NotSent):
                await self._presence.established.connection.tell_roots_changed()

    async def _wait_until_ready(self) -> EstablishedConnection:
        await self.retry()
        if self._presence.established is None:
            raise self._unreachable(f"is not available; nothing ran{_suffix(self.status.detail)}")
        return self._presence.established

    def _unreachable(self, text: str) -> ToolUnreachable:
        error = ToolUnreachable(f"server {self.server.name!r} {text}")
        error.is_back = lambda: self._presence.established is not None
        return error

    async def _drop_connection(self, established: EstablishedConnection, reason: str) -> str:
        """Give up a dead connection; the server's last words, or the reason."""
        if self._presence.established is established:
            self._presence.established = None
            self._presence.become("connecting", "")
        text = await _last_words(established.transport)
        established.transport.ended.set()
        return text or reason

    # one connection

    async def _attempt(self) -> None:
        known_era = self._eras.get(self.server.identity)
        try:
            await self._connect_once(known_era)
        except ServerHungUp:
            # Some servers exit on the new era's question.
            if known_era == "legacy" or _is_cancelled():
                raise
            await self._connect_once("legacy")

    async def _connect_once(self, known_era: Era | None) -> None:
        """Connect, and return when the established connection is over."""
        async with AsyncExitStack() as stack:
            transport: ServerTransport | None = None
            try:
                async with asyncio.timeout(self.server.connect_timeout_seconds) as self._deadline:
                    transport = await stack.enter_async_context(self._open())
                    session = open_session(
                        transport.streams, name=self.server.name, known_era=known_era, outer=self._outer,
                        on_change=self._stale.set,
                        on_probed=None if transport.process is None else transport.process.note_probe,
                    )  # fmt: skip
                    connection = await stack.enter_async_context(session)
                    tools = await connection.list_tools()
            except TimeoutError:
                seconds = self.server.connect_timeout_seconds
                raise ToolUnreachable(f"no answer within {seconds:g} s{_output_suffix(transport)}") from None
            # Not only `MCPError`: the session's task group puts it into an `ExceptionGroup`.
            except Exception as error:
                if transport is None or transport.process is None or not transport.process.has_hung_up:
                    raise
                raise ServerHungUp(await _last_words(transport)) from error
            finally:
                self._deadline = None
            self._eras.put(self.server.identity, connection.era)
            self._mark_ready(EstablishedConnection(connection, transport), tools)
            await self._until_lost(connection, transport)
            self._presence.established = None
            self._presence.become("connecting", await _last_words(transport))

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[ServerTransport]:
        if self.server.transport == "stdio":
            async with start_server(self.server) as process:
                yield ServerTransport((process.inbox, process.outbox), process.inbox.ended, process)
            return
        async with transports.open_url(self.server, self._auth) as (read, write):
            stream = WatchedStream(read)
            yield ServerTransport((stream, write), stream.ended)

    def _mark_ready(self, established: EstablishedConnection, tools: list[types.Tool]) -> None:
        self._ready_at = asyncio.get_running_loop().time()
        self._presence.establish(established)
        is_new = self._current.update(established.connection, tools)
        self._presence.become("ready", "")
        if is_new:
            self._on_change()

    async def _until_lost(self, connection: McpConnection, transport: ServerTransport) -> None:
        async with asyncio.TaskGroup() as tasks:
            helpers = [
                tasks.create_task(connection.watch(self._stale.set)),
                tasks.create_task(self._refresh(connection)),
            ]
            await transport.ended.wait()
            for helper in helpers:
                helper.cancel()

    async def _refresh(self, connection: McpConnection) -> None:
        while True:
            await self._stale.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._stale.clear()
            try:
                tools = await connection.list_tools()
            except (MCPError, NotSent) as error:
                _log.warning("server %r no longer lists its tools: %s", self.server.name, error)
                continue
            if self._current.update(connection, tools):
                self._on_change()

    # waiting

    async def _pause(self, seconds: float) -> None:
        self._reconnect_requested.clear()
        await asyncio.sleep(min(seconds, FIRST_WAIT_SECONDS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - FIRST_WAIT_SECONDS):
                await self._reconnect_requested.wait()

    def _wait_for_person(self, url: str | None) -> None:
        if self._deadline is not None:
            seconds = self.server.connect_timeout_seconds
            auth = self.server.auth
            extra = auth.wait_seconds if url is not None and auth is not None else 0.0
            self._deadline.reschedule(asyncio.get_running_loop().time() + seconds + extra)
        detail = "" if url is None else f"sign in at {url}"
        self._presence.status = replace(self._presence.status, detail=detail)
        if url is not None:
            self._on_sign_in(self.server.name, url)


def _is_cancelled() -> bool:
    """Whether this task is being cancelled: an SDK transport that breaks meanwhile raises its own error instead."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _fate(error: MCPError, transport: ServerTransport) -> tuple[bool, str] | None:
    """Whether a call that failed with the connection may have run, and why; `None` if the server answered it."""
    match error.code:
        case transports.NOT_SENT | transports.SESSION_UNKNOWN:
            return False, error.message
        case transports.CONNECTION_LOST:
            return True, error.message
        # Many servers of the older era answer so with status 400.
        case _ if transport.process is None and "no valid session" in error.message.lower():
            return False, "it forgot the session"
        # Servers use this code for errors of their own, too.
        case types.CONNECTION_CLOSED if transport.ended.is_set() or error.message.startswith("SSE stream"):
            return True, "" if error.message == "Connection closed" else error.message
    return None


def _refusal(error: MCPError) -> ToolError:
    """JSON-RPC error as the program reads it; only what a retry may mend counts against the tool."""
    text = error.message.strip() or f"error {error.code}"
    is_final = error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.INVALID_REQUEST)
    failure = ToolFailed(text) if is_final else ToolError(text)
    if error.code == transports.REFUSED:
        failure.tool_unavailable = text.startswith("HTTP 5")
    return failure


async def _last_words(transport: ServerTransport | None) -> str:
    """Why the server's process ended, and the end of its stderr."""
    if transport is None or transport.process is None:
        return ""
    await transport.process.exit_within(_EXIT_SECONDS)
    match transport.process.exit_code:
        case None:
            end = "it closed its output"
        case code if code < 0:
            end = f"signal {-code} ended it"
        case code:
            end = f"it exited with code {code}"
    return end + _output_suffix(transport)


def _output_suffix(transport: ServerTransport | None) -> str:
    text = transport.process.last_words() if transport is not None and transport.process is not None else ""
    return _suffix(mask_secrets(text)[-_SHOWN_CHARACTERS:])


def _suffix(text: str) -> str:
    return f": {text}" if text else ""


def _error_text(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case FileNotFoundError():
            return mask_secrets(f"no command {error.filename!r}; check the path")
        case httpx2.HTTPStatusError():
            return f"HTTP {error.response.status_code} {error.response.reason_phrase}".strip()
        case httpx2.TransportError() if str(error).strip():
            return mask_secrets(str(error).strip().lower())
    return mask_secrets(str(error).strip())[:_SHOWN_CHARACTERS] or type(error).__name__
