"""The door on a transport: stdio, or streamable HTTP. Stdout belongs to the protocol."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import signal
from collections.abc import Coroutine
from typing import Any, Final

import anyio
from mcp.server.stdio import stdio_server
from starlette.types import ASGIApp, Receive, Scope, Send

from toolfold.doors.mcp.door import Door
from toolfold.errors import UsageError

TOKEN_VARIABLE: Final = "TOOLFOLD_MCP_TOKEN"  # noqa: S105 - its name, not the secret
PATH: Final = "/mcp"


async def serve_stdio(door: Door) -> None:
    """Until the client closes stdin, or a signal comes."""

    async def serve() -> None:
        # While this serves, file descriptor 1 is stderr: nothing that prints can break the protocol.
        async with stdio_server() as (read_stream, write_stream):
            await door.server.run(read_stream, write_stream, door.options())

    async with door:
        await _until_signalled(serve())


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
    # Imported here: a client on stdio waits for the start.
    import uvicorn  # noqa: PLC0415

    app: ASGIApp = door.server.streamable_http_app(streamable_http_path=PATH, host=host)
    if token:
        app = _Guarded(app, token)
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=2))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    async with door:
        await door.connect()
        await _until_signalled(_announced(server, host))


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


# Any: uvicorn is imported only where it is used.
async def _announced(server: Any, host: str) -> None:
    async def announce() -> None:
        while not server.started:
            await asyncio.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        logging.getLogger(__name__).warning("listening on http://%s:%d%s", shown, port, PATH)

    task = asyncio.create_task(announce())
    try:
        await server.serve()
    finally:
        task.cancel()


# Any: what a coroutine yields and is sent is asyncio's business.
async def _until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """SIGINT and SIGTERM end the work in good order: guests and bridged servers end before this process."""
    loop = asyncio.get_running_loop()
    async with anyio.create_task_group() as group:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, group.cancel_scope.cancel)
        await work
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)


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
