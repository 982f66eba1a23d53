"""The door on a transport: stdio, or streamable HTTP. Stdout belongs to the protocol."""

from __future__ import annotations

import hmac
import logging
from typing import Final, Self

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from starlette.types import ASGIApp, Receive, Scope, Send

from toolfold.doors.listening import Server, listen
from toolfold.doors.loopback import OnlyFromHere
from toolfold.doors.mcp.address import TOKEN_VARIABLE, guarded
from toolfold.doors.mcp.door import Door
from toolfold.doors.mcp.early import Early
from toolfold.doors.mcp.stdin import stdin_lines
from toolfold.doors.signals import on_signal

PATH: Final = "/mcp"
_ONLY_FROM_HERE: Final = f"without a token only this machine is served; set {TOKEN_VARIABLE}"
_log: Final = logging.getLogger(__name__)


async def serve_stdio(door: Door, early: Early | None = None) -> None:
    """Until the client closes stdin, or a signal comes; goes on after what was read and answered early."""
    early = early or Early()
    async with door:
        with anyio.CancelScope() as scope, on_signal(scope.cancel):
            # While this serves, file descriptor 1 is stderr: nothing that prints can break the protocol.
            async with stdin_lines(early.data) as stdin, stdio_server(stdin) as (read_stream, write_stream):
                writing = write_stream if early.answered is None else _Unanswered(write_stream, early.answered)
                await door.server.run(read_stream, writing, door.options())


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
    guarded(host, port, token=token)
    # Ours instead of the SDK's check, which has a few names and no addresses.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: ASGIApp = door.server.streamable_http_app(streamable_http_path=PATH, transport_security=unchecked)
    app = _Guarded(app, token) if token else OnlyFromHere(app, text=_ONLY_FROM_HERE)
    shown = f"[{host}]" if ":" in host else host
    listening = listen(host, port, advice=f"--http {shown}:0 picks a free one")
    server = Server(app, timeout_graceful_shutdown=2)

    def stop() -> None:
        server.should_exit = True

    async with door:
        await door.connect()
        _log.warning("listening on http://%s:%d%s", shown, listening.getsockname()[1], PATH)
        with on_signal(stop):
            await server.serve(sockets=[listening])


class _Unanswered:
    """What the SDK writes, without its answer to a request that has one."""

    def __init__(self, stream: WriteStream[SessionMessage], request_id: str | int) -> None:
        self._stream = stream
        self._request_id: str | int | None = request_id

    async def send(self, item: SessionMessage, /) -> None:
        match item.message:
            case types.JSONRPCResponse(id=id_) | types.JSONRPCError(id=id_) if id_ == self._request_id:
                # The next with this id is an answer to another request: a client may use it again.
                self._request_id = None
            case _:
                await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stream.aclose()


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
