"""MCP clients behind requests: identity, capabilities, and the way from bridged servers back to them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolfold.errors import ToolRefused
from toolfold.interfaces.mcp.client_program import CURRENT, McpProgram
from toolfold.interfaces.mcp.client_questions import can_elicit
from toolfold.interfaces.mcp.offered_tools import SAFE_CHARACTERS, description_limit
from toolfold.models import Json
from toolfold.service.answer_memory import BoundedMemory

if TYPE_CHECKING:
    from toolfold.sources.mcp.bridge import Bridge

_log: Final = logging.getLogger(__name__)
Context: TypeAlias = ServerRequestContext[Any, Any]
"""Any: nothing reads what the lifespan yields or what the transport puts into a request."""
STDIO: Final = "stdio"
_MOST_SESSIONS: Final = 1_000
ROOTS_WAIT_SECONDS: Final = 2.0
"""How long a program waits for servers to take the client's folders."""


def client_of(context: Context) -> str:
    """Identity of the client of a request.

    On HTTP that is the protocol session of the older era; in the newer one, which has none, the
    credentials and the address that the request came with, and what the client calls itself.
    """
    request, params = context.request, context.session.client_params
    if request is None:
        return STDIO
    session = request.headers.get("mcp-session-id")
    if session and is_legacy(context):
        return f"session-{session}"
    version = "" if params is None else f"\0{params.client_info.version}"
    return f"peer-{hashlib.sha256(f'{owner_of(context)}{version}'.encode()).hexdigest()[:32]}"


def owner_of(context: Context) -> str:
    """Owner of the programs of a request, which outlives the connection and this process.

    A process on stdio has one user, and its ledger is that user's: each of their windows has all of their programs. On
    HTTP it is the credentials and the address that the request came with, and the name of the client, which may have
    been updated meanwhile.
    """
    request = context.request
    if request is None:
        return STDIO
    peer = request.client.host if request.client is not None else ""
    params = context.session.client_params
    name = "" if params is None else params.client_info.name
    return f"{request.headers.get('authorization', '')}\0{peer}\0{name}"


def name_of(context: Context) -> str:
    """What the client calls itself, for the record."""
    params = context.session.client_params
    return "MCP client" if params is None else f"{params.client_info.name} {params.client_info.version}".strip()[:100]


def is_legacy(context: Context) -> bool:
    """The era with a handshake, in which a server may send requests of its own."""
    return context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS


def description_limit_for(context: Context) -> int:
    """How many characters of a description this client shows the model."""
    params = context.session.client_params
    return SAFE_CHARACTERS if params is None else description_limit(params.client_info.name, params.client_info.version)


def can_ask(context: Context) -> bool:
    """Whether a person can be asked in the course of this request."""
    has_way = not is_legacy(context) or context.session.can_send_request
    return has_way and can_elicit(context.session.client_capabilities)


async def ask(context: Context, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Put one question to the client of the older era; one that it fails to ask is declined."""
    try:
        if isinstance(params, types.ElicitRequestURLParams):
            return await context.session.elicit_url(
                params.message, params.url, params.elicitation_id or "", context.request_id
            )
        return await context.session.elicit_form(params.message, params.requested_schema, context.request_id)
    # The client's answer may be an error or no answer at all; neither is a yes.
    except (MCPError, ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        _log.warning("the client did not ask: %s", error)
        return types.ElicitResult(action="decline")


class Clients:
    """All clients: those that can be told of changes, and the `Outer` of the bridge.

    Args:
        is_alone: There is one client only, whose capabilities are known when servers connect. Otherwise
            questions are offered to servers and declined where the client of a program cannot ask.
    """

    def __init__(self, *, is_alone: bool) -> None:
        self._is_alone = is_alone
        self._capabilities: types.ClientCapabilities | None = None
        self._sessions: BoundedMemory[str, tuple[str, ServerSession]] = BoundedMemory(_MOST_SESSIONS)
        """Of the older era, by client."""
        self.programs: dict[str, McpProgram] = {}
        """Every program that has not ended, by its own id."""
        self.servers: Bridge | None = None
        """Bridged servers, which are told when the folders of a client change."""
        self._roots: Sequence[types.Root] | None = None
        self._unanswered_roots = 0
        """How often servers asked for folders when no program could ask the client for them."""
        self._roots_delivery = asyncio.Event()

    def meet(self, context: Context) -> None:
        self._capabilities = context.session.client_capabilities or self._capabilities
        if is_legacy(context):
            self._sessions.put(client_of(context), (client_of(context), context.session))

    async def tell_tools_changed(self) -> None:
        """Notify every client of the older era; newer clients listen for themselves."""
        for client, session in self._sessions.values():
            if not await _notify(client, session.send_tool_list_changed()):
                self._sessions.pop(client)

    async def tell_files_changed(self, client: str) -> None:
        """Notify one client, if it is of the older era."""
        if (entry := self._sessions.get(client)) is not None:
            await _notify(client, entry[1].send_resource_list_changed())

    # for bridged servers

    @property
    def can_elicit(self) -> bool:
        return can_elicit(self._capabilities) or not self._is_alone

    @property
    def has_roots(self) -> bool:
        return self._is_alone and bool(self._capabilities and self._capabilities.roots)

    async def elicit(self, params: types.ElicitRequestParams, *, server: str, execution_id: str) -> types.ElicitResult:
        program = self._program_for(execution_id)
        if program is None:
            _log.warning("server %r asked a question that belongs to no program; it was declined", server)
            return types.ElicitResult(action="decline")
        return await program.ask_within_a_call(params, server=server)

    async def roots(self) -> Sequence[types.Root]:
        for _, session in self._sessions.values():
            return (await session.send_request(types.ListRootsRequest(), types.ListRootsResult)).roots
        if not self.has_roots:
            return ()
        # A client of the newer era is asked in the course of a program, whichever that is: it is the only client.
        running = (candidate for candidate in self.programs.values() if not candidate.is_done)
        program = CURRENT.get() or next(running, None)
        if self._roots is None and program is not None:
            self._roots = await program.ask_for_roots()
        if self._roots is None:
            self._unanswered_roots += 1
            return ()
        self._unanswered_roots = max(0, self._unanswered_roots - 1)
        self._roots_delivery.set()
        return self._roots

    async def tell_roots(self, program: McpProgram) -> None:
        """Before a program begins: have servers that asked for folders too early ask again."""
        if self._roots is not None or not self._unanswered_roots or self.servers is None:
            return
        with contextlib.suppress(ToolRefused):
            self._roots = await program.ask_for_roots()
            await self.servers.roots_changed()
            with anyio.move_on_after(ROOTS_WAIT_SECONDS):
                while self._unanswered_roots > 0:
                    self._roots_delivery.clear()
                    await self._roots_delivery.wait()
            self._unanswered_roots = 0

    def progress(
        self, *, server: str, tool: str, execution_id: str, progress: float, total: float | None, message: str
    ) -> None:
        program = self._program_for(execution_id)
        if program is not None:
            share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            program.note(f"{tool} {share} {message}".rstrip())

    def log(self, *, server: str, level: str, data: Json) -> None:
        _log.debug("server %r says (%s): %r", server, level, data)

    def _program_for(self, execution_id: str) -> McpProgram | None:
        if (current := CURRENT.get()) is not None:
            return current
        # A question that names no execution can only be that of the only program there is.
        candidates = [
            program for program in self.programs.values() if not execution_id or program.execution_id == execution_id
        ]
        return candidates[0] if len(candidates) == 1 else None


async def _notify(client: str, sending: Awaitable[None]) -> bool:
    try:
        await sending
    # A client that left may fail in any way; the others must hear of it all the same.
    except Exception:  # noqa: BLE001
        _log.debug("client %s is gone", client)
        return False
    return True
