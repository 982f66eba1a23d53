"""Looks after one server: connects, lists its tools, sees it die, brings it back.

1. Nothing here is waited for by another server: each keeper is one task of its own.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from toolfold.errors import ServerHungUp, ToolError, ToolFailed, ToolUnreachable
from toolfold.sources.mcp import http
from toolfold.sources.mcp.connection import Connection, Era, Eras, Outer, open_session
from toolfold.sources.mcp.oauth import SignIn
from toolfold.sources.mcp.server import Known, Remembered, Server, ServerStatus, State
from toolfold.sources.mcp.stdio import NotSent, ServerProcess, Watched, start_server
from toolfold.tools.error_text import mask_secrets

# ----------------------------------------------------------------------------------------------------
# Whether a server is there, and what it offers: what others ask its keeper about. Connects to nothing.

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


FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 5.0
MAX_LOSSES: Final = 3
"""Connections in a row that were lost sooner than that; then there is a pause before the next."""
_GATHER_SECONDS: Final = 0.05
"""Changes that come together are one."""
_EXIT_SECONDS: Final = 0.5
_SHOWN_CHARACTERS: Final = 600

_Result = TypeVar("_Result")


class Keeper:
    """One server, kept."""

    def __init__(
        self,
        server: Server,
        *,
        outer: Outer | None,
        eras: Eras,
        remembered: Remembered,
        tokens: Path,
        on_change: Callable[[], None],
        on_sign_in: Callable[[str, str], None],
    ) -> None:
        self.server = server
        self._listing = Listing(server, remembered)
        self._presence = Presence(server.name)
        self._outer = outer
        self._eras = eras
        self._on_change = on_change
        self._on_sign_in = on_sign_in
        self._auth = SignIn(server, tokens, self._wait_for_person) if server.auth is not None else None
        self._deadline: asyncio.Timeout | None = None
        self._stale = asyncio.Event()
        """The server said that its list of tools has changed."""
        self._wanted = asyncio.Event()
        """A call waits for the server, so the next attempt need not."""
        self._ready_at = math.inf

    @property
    def tools(self) -> tuple[types.Tool, ...]:
        return self._listing.tools

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self._listing.capabilities

    @property
    def status(self) -> ServerStatus:
        return self._presence.status(len(self.tools))

    async def settled(self) -> None:
        """Until it has listed its tools, or failed; one that failed is not waited for again."""
        await self._presence.settled.wait()

    async def run(self) -> None:
        """For as long as the bridge is open; cancel it to end the server."""
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
                why = ""
            # Whatever a transport or a server's strange answer raises, the next attempt may go well.
            except Exception as error:
                if _is_cancelled():
                    raise asyncio.CancelledError from error
                why = _words(error)
            self._presence.established = None
            if self._presence.state == "ready":
                self._presence.become("connecting", why)
            if self._ready_at == math.inf:
                failures += 1
            else:
                failures = 0
                losses = 0 if loop.time() - self._ready_at > STEADY_SECONDS else losses + 1
            if failures or losses > MAX_LOSSES:
                self._presence.fail(why or self._presence.detail or "the connection was lost again and again")
                await self._pause(min(FIRST_WAIT_SECONDS * 2 ** max(failures - 1, 0), LONGEST_WAIT_SECONDS))

    # calls

    async def call(self, work: Callable[[Connection], Awaitable[_Result]], *, may_repeat: bool) -> _Result:
        """Do something on the connection, when there is one.

        Raises:
            ToolUnreachable: the server is away, or was lost in the middle.
            ToolFailed: it refused the request.
            ToolError: it failed in some other way that it has words for.
        """
        is_second = False
        while True:
            established = await self._ready()
            try:
                return await work(established.connection)
            except NotSent:
                may_have_run, why = False, ""
            except MCPError as error:
                fate = _fate(error, established.link)
                if fate is None:
                    raise _refusal(error) from error
                may_have_run, why = fate
            why = await self._lose(established, why)
            if is_second or (may_have_run and not may_repeat):
                ran = "it may have run, so it was not repeated" if may_have_run else "nothing ran"
                raise ToolUnreachable(f"server {self.server.name!r} was lost during the call; {ran}{_after(why)}")
            is_second = True

    async def tell_roots_changed(self) -> None:
        """Harmless where the server is away: it asks once it is there."""
        if self._presence.established is not None:
            with contextlib.suppress(MCPError, NotSent):
                await self._presence.established.connection.tell_roots_changed()

    async def _ready(self) -> Established:
        if self._presence.established is None:
            self._wanted.set()
            await self._presence.attempted.wait()
        if self._presence.established is None:
            raise ToolUnreachable(
                f"server {self.server.name!r} is not there; nothing ran{_after(self._presence.detail)}"
            )
        return self._presence.established

    async def _lose(self, established: Established, why: str) -> str:
        """A call found the connection dead: tell the keeper, and say what the server said last."""
        if self._presence.established is established:
            self._presence.established = None
            self._presence.become("connecting", "")
        words = await _last_words(established.link)
        established.link.ended.set()
        return words or why

    # one connection

    async def _attempt(self) -> None:
        known = self._eras.get(self.server.identity)
        try:
            await self._connect_once(known)
        except ServerHungUp:
            # Some servers exit on the new era's question.
            if known == "legacy" or _is_cancelled():
                raise
            await self._connect_once("legacy")

    async def _connect_once(self, known: Era | None) -> None:
        """From the first byte to the last; returns when an established connection is over."""
        async with AsyncExitStack() as stack:
            link: Link | None = None
            try:
                async with asyncio.timeout(self.server.connect_timeout_seconds) as self._deadline:
                    link = await stack.enter_async_context(self._open())
                    session = open_session(
                        link.streams,
                        name=self.server.name,
                        known=known,
                        outer=self._outer,
                        on_change=self._stale.set,
                    )
                    connection = await stack.enter_async_context(session)
                    tools = await connection.list_tools()
            except TimeoutError:
                seconds = self.server.connect_timeout_seconds
                raise ToolUnreachable(f"no answer within {seconds:g} s{_said(link)}") from None
            # Not only `MCPError`: the session's task group puts it into an `ExceptionGroup`.
            except Exception as error:
                if link is None or link.process is None or not link.process.has_hung_up:
                    raise
                raise ServerHungUp(await _last_words(link)) from error
            finally:
                self._deadline = None
            self._eras.put(self.server.identity, connection.era)
            self._begin(Established(connection, link), tools)
            await self._until_lost(connection, link)
            self._presence.established = None
            self._presence.become("connecting", await _last_words(link))

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Link]:
        if self.server.transport == "stdio":
            async with start_server(self.server) as process:
                yield Link((process.inbox, process.outbox), process.inbox.ended, process)
            return
        async with http.open_url(self.server, self._auth) as (read, write):
            watched = Watched(read)
            yield Link((watched, write), watched.ended)

    def _begin(self, established: Established, tools: list[types.Tool]) -> None:
        self._ready_at = asyncio.get_running_loop().time()
        self._presence.establish(established)
        is_new = self._listing.confirm(established.connection, tools)
        self._presence.become("ready", "")
        if is_new:
            self._on_change()

    async def _until_lost(self, connection: Connection, link: Link) -> None:
        async with asyncio.TaskGroup() as tasks:
            helpers = [
                tasks.create_task(connection.watch(self._stale.set)),
                tasks.create_task(self._refresh(connection)),
            ]
            await link.ended.wait()
            for helper in helpers:
                helper.cancel()

    async def _refresh(self, connection: Connection) -> None:
        while True:
            await self._stale.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._stale.clear()
            try:
                tools = await connection.list_tools()
            except (MCPError, NotSent) as error:
                _log.warning("server %r does not list its tools any more: %s", self.server.name, error)
                continue
            if self._listing.update(tools):
                self._on_change()

    # waiting

    async def _pause(self, seconds: float) -> None:
        self._wanted.clear()
        await asyncio.sleep(min(seconds, FIRST_WAIT_SECONDS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - FIRST_WAIT_SECONDS):
                await self._wanted.wait()

    def _wait_for_person(self, url: str | None) -> None:
        if self._deadline is not None:
            seconds = self.server.connect_timeout_seconds
            auth = self.server.auth
            extra = auth.wait_seconds if url is not None and auth is not None else 0.0
            self._deadline.reschedule(asyncio.get_running_loop().time() + seconds + extra)
        self._presence.detail = "" if url is None else f"sign in at {url}"
        if url is not None:
            self._on_sign_in(self.server.name, url)


def _is_cancelled() -> bool:
    """Whether somebody ends the keeper: an SDK transport that breaks meanwhile raises its own error instead."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _fate(error: MCPError, link: Link) -> tuple[bool, str] | None:
    """Whether a call that failed with the connection may have run, and why; `None`: the server answered it."""
    match error.code:
        case http.NOT_SENT:
            return False, error.message
        case http.LOST:
            return True, error.message
        case http.FORGOT:
            return False, error.message
        # Many servers of the older era answer so with status 400.
        case _ if link.process is None and "no valid session" in error.message.lower():
            return False, "it forgot the session"
        # Servers use this code for errors of their own, too.
        case types.CONNECTION_CLOSED if link.ended.is_set() or error.message.startswith("SSE stream"):
            return True, "" if error.message == "Connection closed" else error.message
    return None


def _refusal(error: MCPError) -> ToolError:
    """A JSON-RPC error as the program reads it; only what a retry may mend counts against the tool."""
    text = error.message.strip() or f"error {error.code}"
    is_final = error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.INVALID_REQUEST)
    return ToolFailed(text) if is_final else ToolError(text)


async def _last_words(link: Link | None) -> str:
    """Why the server's process ended, and the end of its stderr."""
    if link is None or link.process is None:
        return ""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            await link.process.exited.wait()
    match link.process.exit_code:
        case None:
            end = "it closed its output"
        case code if code < 0:
            end = f"signal {-code} ended it"
        case code:
            end = f"it exited with code {code}"
    return end + _said(link)


def _said(link: Link | None) -> str:
    words = link.process.last_words() if link is not None and link.process is not None else ""
    return _after(mask_secrets(words)[-_SHOWN_CHARACTERS:])


def _after(words: str) -> str:
    return f": {words}" if words else ""


def _words(error: BaseException) -> str:
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
