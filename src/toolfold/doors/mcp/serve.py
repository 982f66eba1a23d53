"""The door on a transport: stdio, or streamable HTTP. Stdout belongs to the protocol."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from typing import Final

import anyio
import uvicorn
from mcp.server.stdio import stdio_server
from starlette.types import ASGIApp, Receive, Scope, Send

from toolfold.doors.listening import Server, listen
from toolfold.doors.mcp.door import Door
from toolfold.doors.mcp.stdin import stdin_lines
from toolfold.doors.signals import on_signal
from toolfold.errors import UsageError

TOKEN_VARIABLE: Final = "TOOLFOLD_MCP_TOKEN"  # noqa: S105 - its name, not the secret
PATH: Final = "/mcp"
_log: Final = logging.getLogger(__name__)


async def serve_stdio(door: Door) -> None:
    """Until the client closes stdin, or a signal comes."""
    async with door:
        with anyio.CancelScope() as scope, on_signal(scope.cancel):
            # While this serves, file descriptor 1 is stderr: nothing that prints can break the protocol.
            async with stdin_lines() as stdin, stdio_server(stdin) as (read_stream, write_stream):
                await door.server.run(read_stream, write_stream, door.options())


async def serve_http(door: Door, host: str, port: int, *, token: str = "") -> None:
    """Until a signal comes.

    Args:
        door: What is served, at `/mcp`.
        host: To listen on; another than loopback needs a token.
        port: The same; 0 takes a free one.
        token: Clients must send it as `Authorization: Bearer`; empty lets everyone in.

    Raises:
        UsageError: without a token, whoever reaches the address could run programs.
    """
    if not token and not _is_loopback(host):
        raise UsageError(f"--http {host}:{port} is reachable from outside; set {TOKEN_VARIABLE} to a secret first")
    app: ASGIApp = door.server.streamable_http_app(streamable_http_path=PATH, host=host)
    listening = listen(host, port)
    server = Server(
        uvicorn.Config(_Guarded(app, token) if token else app, log_level="warning", timeout_graceful_shutdown=2)
    )

    def stop() -> None:
        server.should_exit = True

    async with door:
        await door.connect()
        shown = f"[{host}]" if ":" in host else host
        _log.warning("listening on http://%s:%d%s", shown, listening.getsockname()[1], PATH)
        with on_signal(stop):
            await server.serve(sockets=[listening])


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[::1]:PORT` or a bare port.

    Raises:
        UsageError: it is neither.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http {text!r} is no address; write HOST:PORT, as in 127.0.0.1:8765")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Guarded:
    """Lets in only who brings the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"send the token as Authorization: Bearer"})
                return
        await self._app(scope, receive, send)
