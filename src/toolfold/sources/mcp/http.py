"""A server behind a URL: streamable HTTP, or the older SSE.

The SDK ends the whole connection when one POST fails to connect, and calls every refusal "an error
response". `_Client` stands below it and answers such a POST in the server's place, so that only the
call that met the failure gets it, in words, and knows whether anything was sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from toolfold.errors import ToolUnreachable
from toolfold.sources.mcp.server import Server

NOT_SENT: Final = -32_950
LOST: Final = -32_951
REFUSED: Final = -32_952
FORGOT: Final = -32_953
"""Codes of the errors that stand in for a server's own."""
_SECONDS: Final = 30.0
_GOODBYE_SECONDS: Final = 2.0


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


class _Client(httpx2.AsyncClient):
    """Failures of one POST, as the JSON-RPC errors that the SDK hands to the one who made it."""

    # Any: the options are those of `AsyncClient.send`.
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "DELETE":  # the session's end; nobody waits long for a server's goodbye
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _GOODBYE_SECONDS)
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _error(request, NOT_SENT, _words(error))
        except httpx2.TransportError as error:
            return _error(request, LOST, _words(error))
        except (OAuthFlowError, ToolUnreachable) as error:
            return _error(request, REFUSED, str(error))
        if response.status_code < 400 or request.method != "POST":
            return response
        if response.status_code == 404:
            if "mcp-session-id" not in request.headers:
                return response  # to the SDK, that there is no such method
            code, text = FORGOT, "it forgot the session"
        elif response.headers.get("content-type", "").lower().startswith("application/json"):
            return response  # it may hold the server's own error
        else:
            code, text = REFUSED, f"HTTP {response.status_code} {response.reason_phrase}".strip()
        await response.aclose()
        return _error(request, code, text)


def _error(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    # Any: a JSON-RPC error; the SDK puts the request's own id in.
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(503, json=body, request=request)


def _words(error: Exception) -> str:
    return str(error).strip().lower() or type(error).__name__
