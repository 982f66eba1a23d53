"""HTTP transports to an MCP server: streamable HTTP, and the older SSE.

The SDK ends the whole connection when one POST fails to connect, and calls every refusal "an error response". `_Client`
stands below it and answers such a POST in the server's place, so that only its caller gets the failure, and knows
whether anything was sent. By SSE, the SDK stops sending after such a POST and tells nobody; `_SseClient` answers it on
the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
import httpx2
from mcp.client._transport import ReadStream, TransportStreams
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import next_request_within_origin
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, jsonrpc_message_adapter

from toolfold.errors import ToolUnreachable
from toolfold.sources.mcp.server_definition import Server
from toolfold.sources.mcp.stdio_transport import ServerInbox

NOT_SENT: Final = -32_950
CONNECTION_LOST: Final = -32_951
REFUSED: Final = -32_952
SESSION_UNKNOWN: Final = -32_953
"""Codes of the errors that stand in for a server's own."""
_SECONDS: Final = 30.0
_GOODBYE_SECONDS: Final = 2.0
_QUEUED_MESSAGES: Final = 1000
"""By SSE: more than this and the server has to wait until they are read."""


@asynccontextmanager
async def open_url(server: Server, auth: httpx2.Auth | None) -> AsyncIterator[TransportStreams]:
    """Open the SDK's two streams; nothing is sent yet, except by SSE, which raises `httpx2.HTTPError`."""
    assert server.url is not None
    if server.transport == "sse":
        async with _open_sse(server, auth) as (inbox, outbox):
            yield inbox, outbox
        return
    async with (
        _Client(
            headers=dict(server.headers),
            auth=auth,
            # How long a call may take is the router's to say, so no limit on reading.
            timeout=httpx2.Timeout(_SECONDS, read=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        ) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


@asynccontextmanager
async def _open_sse(server: Server, auth: httpx2.Auth | None) -> AsyncIterator[TransportStreams]:
    assert server.url is not None
    inbox = ServerInbox()
    async with sse_client(
        server.url,
        headers=dict(server.headers),
        timeout=_SECONDS,
        # An idle stream is no dead one: ten years, for the SDK takes no "never".
        sse_read_timeout=3e8,
        httpx_client_factory=partial(_SseClient, inbox),
        auth=auth,
    ) as (read, write):
        task = asyncio.create_task(_fill(inbox, read))
        try:
            yield inbox, write
        finally:
            task.cancel()


async def _fill(inbox: ServerInbox, read: ReadStream[SessionMessage | Exception]) -> None:
    is_empty = asyncio.Event()
    inbox.on_empty = is_empty.set
    try:
        async for item in read:
            inbox.put(item)
            if len(inbox) > _QUEUED_MESSAGES:
                is_empty.clear()
                await is_empty.wait()
    except anyio.ClosedResourceError:
        pass  # the SDK's side is closed already
    finally:
        inbox.end()


class _PostFailure(Exception):
    """Failed POST, with the code and the text that its caller gets."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Client(httpx2.AsyncClient):
    """Client that answers a failed POST with the JSON-RPC error that the SDK hands to its caller."""

    # Any: the options are those of `AsyncClient.send`.
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "DELETE":  # the session's end; nobody waits long for a server's goodbye
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _GOODBYE_SECONDS)
        try:
            return await self._send_checked(request, **options)
        except _PostFailure as failure:
            error = {"code": failure.code, "message": str(failure)}
            # The SDK puts the request's own id in.
            return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)

    # Any: as above.
    async def _send_checked(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise _PostFailure(NOT_SENT, _error_text(error)) from error
        except httpx2.TransportError as error:
            raise _PostFailure(CONNECTION_LOST, _error_text(error)) from error
        except (OAuthFlowError, ToolUnreachable) as error:
            raise _PostFailure(REFUSED, str(error)) from error
        if response.status_code < 400 or request.method != "POST":
            return response
        if response.status_code == 404:
            if "mcp-session-id" not in request.headers:
                return response  # to the SDK, that there is no such method
            failure = _PostFailure(SESSION_UNKNOWN, "it forgot the session")
        elif response.headers.get("content-type", "").lower().startswith("application/json"):
            return response  # it may hold the server's own error
        else:
            failure = _PostFailure(REFUSED, _status(response))
        await response.aclose()
        raise failure


class _SseClient(_Client):
    """Client for SSE, where answers of POSTs are not read: it puts an error on the stream."""

    # Any: the options are those of `AsyncClient`, and of its `send`.
    def __init__(self, inbox: ServerInbox, **options: Any) -> None:
        super().__init__(**options)
        self._inbox = inbox

    # Any: as above.
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            # Not ours: whoever opens the stream is to see why it cannot be opened.
            return await httpx2.AsyncClient.send(self, request, **options)
        try:
            response = await self._send_checked(request, **options)
            if response.is_success or next_request_within_origin(response) is not None:
                return response
            await response.aclose()
            if response.status_code == 404:
                raise _PostFailure(SESSION_UNKNOWN, "it forgot the session")
            raise _PostFailure(REFUSED, _status(response))
        except _PostFailure as failure:
            message = jsonrpc_message_adapter.validate_json(request.content, by_name=False)
            if isinstance(message, JSONRPCRequest):
                data = ErrorData(code=failure.code, message=str(failure))
                self._inbox.put(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=data)))
            return httpx2.Response(202, request=request)


def _status(response: httpx2.Response) -> str:
    return f"HTTP {response.status_code} {response.reason_phrase}".strip()


def _error_text(error: Exception) -> str:
    return str(error).strip().lower() or type(error).__name__
