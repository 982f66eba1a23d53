"""A server behind a URL: streamable HTTP, or the older SSE.

The SDK ends the whole connection when one POST fails to connect, and calls every refusal "an error
response". `_Door` stands below it and answers such a POST in the server's place, so that only the
call that met the failure gets it, in words, and knows whether anything was sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from toolfold.sources.mcp.server import Server

NOT_SENT: Final = -32_950
LOST: Final = -32_951
REFUSED: Final = -32_952
FORGOT: Final = -32_953
"""Codes of the errors that stand in for a server's own."""
_SECONDS: Final = 30.0


@asynccontextmanager
async def open_url(server: Server, auth: httpx2.Auth | None) -> AsyncIterator[TransportStreams]:
    """The SDK's two streams to the server; nothing is sent yet, except by SSE.

    Raises:
        httpx2.HTTPError: by SSE, where the server is not there.
    """
    assert server.url is not None
    if server.transport == "sse":
        async with sse_client(
            server.url,
            headers=dict(server.headers),
            timeout=_SECONDS,
            # An idle stream is no dead one: ten years, for the SDK takes no "never".
            sse_read_timeout=3e8,
            auth=auth,
        ) as streams:
            yield streams
        return
    async with (
        # How long a call may take is the router's to say, so no limit on reading.
        httpx2.AsyncClient(
            headers=dict(server.headers),
            auth=auth,
            timeout=httpx2.Timeout(_SECONDS, read=None),
            transport=_Door(signs_in=auth is not None),
        ) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


class _Door(httpx2.AsyncHTTPTransport):
    """Failures of one POST, as the JSON-RPC errors that the SDK hands to the one who made it."""

    def __init__(self, *, signs_in: bool) -> None:
        super().__init__()
        self._signs_in = signs_in

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _error(NOT_SENT, _words(error))
        except httpx2.TransportError as error:
            return _error(LOST, _words(error))
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            await response.aclose()
            return _error(FORGOT, "it forgot the session")
        # To the SDK, other 404s say that there is no such method.
        is_known = response.status_code == 404 or (self._signs_in and response.status_code in (401, 403))
        if response.status_code >= 400 and request.method == "POST" and not is_known:
            kind = response.headers.get("content-type", "")
            if not kind.lower().startswith("application/json"):
                await response.aclose()
                return _error(REFUSED, f"HTTP {response.status_code} {response.reason_phrase}".strip())
        return response


def _error(code: int, message: str) -> httpx2.Response:
    # Any: a JSON-RPC error; the SDK puts the request's own id in.
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(503, json=body)


def _words(error: Exception) -> str:
    return str(error).strip().lower() or type(error).__name__
