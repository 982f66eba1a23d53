"""Connection to one MCP server, from the handshake to its end, and the protocol era that it speaks."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

import mcp_types as types
import msgspec
import platformdirs
from mcp import ClientSession, MCPError
from mcp.client._transport import ReadStream, WriteStream
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import SessionMessage
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, DiscoverResult, ElicitRequestParams, ElicitResult, Root
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolfold.errors import ToolError
from toolfold.models import Json
from toolfold.sources.private_files import write_private_file

# ----------------------------------------------------------------------------------------------------
# Protocol era of a server, probed once and remembered in the user's cache folder.
#
# A probe costs: some servers ignore it (so it has a time limit), some exit on it (so the next connection does not
# probe).

Era: TypeAlias = Literal["legacy", "modern"]

PROBE_SECONDS: Final = 2.0
_MAX_AGE_SECONDS: Final = 7 * 24 * 3600
"""Then the server is probed again: it may have been updated."""
_MAX_SERVERS: Final = 500
_log: Final = logging.getLogger(__name__)


async def negotiate(session: ClientSession, known_era: Era | None, on_probed: Callable[[], None] | None = None) -> Era:
    """Agree on a version; a known era spares the probe. `MCPError` if the server speaks none of ours, or hung up."""
    if known_era != "legacy" and await _try_discover(session, None if known_era == "modern" else PROBE_SECONDS):
        return "modern"
    if on_probed is not None:
        on_probed()
    try:
        await session.initialize()
    except MCPError as error:
        # It was updated since; or it starts slowly, and read our probe after its time was up.
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()
        return "modern"
    return "legacy"


async def _try_discover(session: ClientSession, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(seconds):
            raw = await session.send_discover(LATEST_MODERN_VERSION)
        result = DiscoverResult.model_validate(raw)
    except (MCPError, ValidationError, TimeoutError) as error:
        _log.debug("the server does not speak the newer protocol: %s", error)
        return False
    if not any(version in result.supported_versions for version in MODERN_PROTOCOL_VERSIONS):
        return False
    session.adopt(result)
    return True


class EraCache:
    """Protocol eras by server. Never fails: without a file it remembers in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or platformdirs.user_cache_path("toolfold", appauthor=False) / "mcp-eras.json"
        self._entries: dict[str, tuple[Era, float]] | None = None

    def get(self, identity: str) -> Era | None:
        entry = self._load().get(identity)
        return entry[0] if entry is not None and time.time() - entry[1] < _MAX_AGE_SECONDS else None

    def put(self, identity: str, era: Era) -> None:
        if self.get(identity) == era:
            return
        # Read again: other processes write the same file.
        entries = self._entries = {**self._read(), **self._load(), identity: (era, time.time())}
        newest = sorted(entries.items(), key=lambda item: -item[1][1])[:_MAX_SERVERS]
        with contextlib.suppress(OSError):
            write_private_file(self._path, msgspec.json.encode(dict(newest)))

    def _load(self) -> dict[str, tuple[Era, float]]:
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def _read(self) -> dict[str, tuple[Era, float]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, tuple[Era, float]])
        except (OSError, msgspec.MsgspecError):
            return {}


# ----------------------------------------------------------------------------------------------------
# Unreadable replies, matched to their calls, which then end at once and not at their timeout.

UNREADABLE: Final = "the server's reply could not be read, so it is unknown whether the call took effect"
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,64}")')
_BODY: Final = re.compile(rb'"(?:result|error)"\s*:')


def broken_reply(line: bytes) -> types.JSONRPCError | None:
    """Error for the call that a broken line seems to answer; `None` for anything else that a server prints."""
    if not line.lstrip().startswith(b"{") or b'"jsonrpc"' not in line or _BODY.search(line) is None:
        return None
    request_id = _request_id(line)
    if request_id is None:
        return None
    return types.JSONRPCError(
        jsonrpc="2.0", id=request_id, error=types.ErrorData(code=types.INTERNAL_ERROR, message=UNREADABLE)
    )


def _request_id(line: bytes) -> int | str | None:
    try:
        message = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return _likely_id(line)
    request_id = message.get("id") if "method" not in message else None
    return request_id if isinstance(request_id, int | str) and not isinstance(request_id, bool) else None


def _likely_id(line: bytes) -> int | str | None:
    """The first id if it stands before the body, else the last: ids between may be part of the body."""
    ids = list(_ID.finditer(line))
    body = _BODY.search(line)
    if not ids or body is None:
        return None
    match = ids[0] if ids[0].start() < body.start() else ids[-1]
    text = match[1].decode(errors="replace")
    return text[1:-1] if text.startswith('"') else int(text)


# ----------------------------------------------------------------------------------------------------
# Client outside, which can answer questions of a bridged server, name folders and show progress.
#
# Its types are the SDK's own, so that nothing is lost between a bridged server and the interface's client.

EXECUTION: Final[ContextVar[str]] = ContextVar("toolfold_execution", default="")
"""Execution whose call a question belongs to, while it is asked in that call's own task."""


class Outer(Protocol):
    """Client outside of a bridge. Only what it can do is declared to bridged servers, when they connect.

    `execution_id` is that of the program whose call is meant; empty where that cannot be known.
    """

    @property
    def can_elicit(self) -> bool: ...
    @property
    def has_roots(self) -> bool: ...

    async def elicit(self, params: ElicitRequestParams, *, server: str, execution_id: str) -> ElicitResult:
        """Ask the person outside, for as long as it takes.

        Raises:
            ToolError: there is no way to ask any more; the call that the question belongs to fails with its text.
        """

    async def roots(self) -> Sequence[Root]:
        """The folders that the client works in."""

    def progress(
        self, *, server: str, tool: str, execution_id: str, progress: float, total: float | None, message: str
    ) -> None:
        """Show the progress of a call; must not block."""

    def log(self, *, server: str, level: str, data: Json) -> None:
        """Pass on a log message of a server; must not block."""


MAX_PAGES: Final = 1000
MAX_ROUNDS: Final = 20
"""Questions that one call may ask, one after another."""
_RELISTEN_SECONDS: Final = 1.0

_Page = TypeVar("_Page", bound=types.PaginatedResult)
# Any: what the three methods that may ask have in common is not in their types.
_SendRequest = Callable[..., Awaitable[Any]]


class LenientSession(ClientSession):
    """The SDK's session, which returns a result that does not fit its schema instead of nothing."""

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """The bridge checks that, and only warns."""


class McpConnection:
    """A session after its handshake. Calls may be made from any task, many at once."""

    def __init__(self, session: LenientSession, era: Era, executions: list[str]) -> None:
        self.era = era
        self._session = session
        self._executions = executions

    @property
    def version(self) -> str:
        return self._session.protocol_version or ""

    @property
    def instructions(self) -> str:
        return self._session.instructions or ""

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self._session.server_capabilities or types.ServerCapabilities()

    async def list_tools(self) -> list[types.Tool]:
        if self.capabilities.tools is None and self.era == "legacy":
            return []  # many servers answer with an error what they do not offer
        return [tool async for page in _pages(self._session.list_tools) for tool in page.tools]

    async def list_resources(self) -> list[types.Resource]:
        return [resource async for page in _pages(self._session.list_resources) for resource in page.resources]

    async def list_prompts(self) -> list[types.Prompt]:
        return [prompt async for page in _pages(self._session.list_prompts) for prompt in page.prompts]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, execution_id: str, on_progress: ProgressFnT | None
    ) -> types.CallToolResult:
        """One call, with every question that the server asks before it answers."""
        send = partial(self._session.call_tool, name, dict(arguments), progress_callback=on_progress)
        try:
            result = await self._call_with_answers(send, execution_id)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
            await self.list_tools()  # the tool's schema has changed, and with it the headers of a call
            result = await self._call_with_answers(send, execution_id)
        assert isinstance(result, types.CallToolResult)
        return result

    async def read_resource(self, uri: str, *, execution_id: str) -> types.ReadResourceResult:
        result = await self._call_with_answers(partial(self._session.read_resource, uri), execution_id)
        assert isinstance(result, types.ReadResourceResult)
        return result

    async def get_prompt(self, name: str, arguments: Mapping[str, str], *, execution_id: str) -> types.GetPromptResult:
        send = partial(self._session.get_prompt, name, dict(arguments))
        result = await self._call_with_answers(send, execution_id)
        assert isinstance(result, types.GetPromptResult)
        return result

    # Any: as above.
    async def _call_with_answers(self, send: _SendRequest, execution_id: str) -> Any:
        self._executions.append(execution_id)
        token = EXECUTION.set(execution_id)
        try:
            return await self._answer_questions(send)
        finally:
            EXECUTION.reset(token)
            self._executions.remove(execution_id)

    # Any: as above.
    async def _answer_questions(self, send: _SendRequest) -> Any:
        """The new era's way to ask: the server answers with questions, and is sent the request again with answers."""
        result = await _send(send, None, None)
        rounds = 0
        while isinstance(result, types.InputRequiredResult):
            rounds += 1
            if rounds > MAX_ROUNDS:
                raise MCPError(types.INTERNAL_ERROR, f"it asked more than {MAX_ROUNDS} times before it answered")
            responses: types.InputResponses | None = None
            if result.input_requests:
                responses = {key: await self._ask(key, request) for key, request in result.input_requests.items()}
            else:
                await asyncio.sleep(min(0.05 * 2**rounds, 1.0))
            result = await _send(send, responses, result.request_state)
        return result

    async def _ask(self, key: str, request: types.InputRequest) -> types.InputResponse:
        context = ClientRequestContext(session=self._session, request_id=key)
        response = await self._session.dispatch_input_request(context, request)
        if isinstance(response, types.ErrorData):
            raise MCPError.from_error_data(response)
        return response

    async def tell_roots_changed(self) -> None:
        """Notify a server of the older era; the newer one asks for them with each call."""
        if self.era == "legacy":
            await self._session.send_notification(types.RootsListChangedNotification())

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Subscribe to changes, in the era that needs it; ends with the connection."""
        if self.version not in MODERN_PROTOCOL_VERSIONS:
            return
        while True:
            try:
                async with listen(self._session, tools_list_changed=True) as changes:
                    async for _ in changes:
                        on_change()
                return
            except SubscriptionLost:
                await asyncio.sleep(_RELISTEN_SECONDS)
                on_change()
            except (MCPError, TimeoutError) as error:
                _log.debug("the server does not report changes: %s", error)
                return


# Any: as above.
async def _send(send: _SendRequest, responses: types.InputResponses | None, state: str | None) -> Any:
    try:
        return await send(input_responses=responses, request_state=state, allow_input_required=True)
    except ValidationError as error:  # JSON, but not of the shape that such a reply has
        raise MCPError(types.INTERNAL_ERROR, UNREADABLE) from error


@asynccontextmanager
async def open_session(
    streams: tuple[ReadStream[Any], WriteStream[SessionMessage]], *, name: str, known_era: Era | None,
    outer: Outer | None, on_change: Callable[[], None], on_probed: Callable[[], None] | None = None,
) -> AsyncIterator[McpConnection]:  # fmt: skip
    """A session over a transport's streams, after the handshake; `MCPError` if the server refused or hung up.

    `on_probed` is called when the server has not understood the probe for the newer era.
    """
    executions: list[str] = []
    handlers = _ClientHandlers(name, outer, executions) if outer is not None else None

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()

    session = LenientSession(
        *streams, elicitation_callback=handlers.elicit if handlers and handlers.outer.can_elicit else None,
        list_roots_callback=handlers.list_roots if handlers and handlers.outer.has_roots else None,
        logging_callback=handlers.log if handlers else None, log_level="info" if handlers else None,
        message_handler=on_message, client_info=types.Implementation(name="toolfold", version=_version()),
    )  # fmt: skip
    async with session:
        yield McpConnection(session, await negotiate(session, known_era, on_probed), executions)


def _version() -> str:
    try:
        return importlib.metadata.version("toolfold")
    except importlib.metadata.PackageNotFoundError:
        return "0"  # run from its source folder


class _ClientHandlers:
    """A server's requests, passed to the client outside."""

    def __init__(self, name: str, outer: Outer, executions: list[str]) -> None:
        self.outer = outer
        self._name = name
        self._executions = executions

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        # The older era does not say which call a question belongs to: the latest is the likeliest.
        execution_id = EXECUTION.get() or (self._executions[-1] if self._executions else "")
        try:
            return await self.outer.elicit(params, server=self._name, execution_id=execution_id)
        except ToolError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))

    async def list_roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        try:
            return types.ListRootsResult(roots=list(await self.outer.roots()))
        except ToolError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.outer.log(server=self._name, level=params.level, data=params.data)


async def _pages(fetch: Callable[..., Awaitable[_Page]]) -> AsyncIterator[_Page]:
    """Every page of a list; a cursor that comes again ends it, or a broken server would be read for ever."""
    page = await fetch(params=types.PaginatedRequestParams(cursor=None))
    yield page
    visited: set[str] = set()
    while (cursor := page.next_cursor) is not None and cursor not in visited and len(visited) < MAX_PAGES:
        visited.add(cursor)
        page = await fetch(params=types.PaginatedRequestParams(cursor=cursor))
        yield page
