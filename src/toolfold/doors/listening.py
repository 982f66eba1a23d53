"""What the doors that listen share: an address that is really open once it is told, and a server that ends in order."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolfold.doors.connections import Connection, Connections, Listener, Patience
from toolfold.errors import UsageError


def listen(host: str, port: int, *, advice: str = "choose another port") -> socket.socket:
    """Open the address; who connects from now on waits for the server instead of being refused.

    Args:
        host: A name or an address.
        port: 0 takes a free one.
        advice: What to do where the port is not free, in the words of the command.

    Raises:
        UsageError: the address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol named: without that asyncio does not send small answers at once.
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1024)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        raise UsageError(
            f"{host}:{port} cannot be listened on: {text}; {advice if is_port else 'choose another host'}"
        ) from None
    return listening


class Server(uvicorn.Server):
    """uvicorn with limits of ours on connections and heads; options are those of its config.

    It leaves signals to us: uvicorn would raise them again before our guests have ended.
    """

    # Any: each option of uvicorn has its own type.
    def __init__(self, app: ASGIApp, patience: Patience | None = None, **options: Any) -> None:
        # Without WebSockets, which no door speaks: uvicorn would load them where the package is there by chance, and
        # hand over connections that our limits would no longer hold.
        super().__init__(uvicorn.Config(_Strict(app), log_level="warning", http="h11", ws="none", **options))
        self._connections = Connections(patience or Patience())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # with none of its own

        def make() -> Connection:
            return Connection(
                self._connections, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

        # uvicorn closes these and waits for them, and no more.
        servers: list[Any] = [Listener(one, self._connections, make) for one in sockets or ()]
        self.servers = servers

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Strict:
    """Answers in JSON where uvicorn would choose otherwise: a body with two ends, a request cut off at the end.

    Of a body with `Content-Length` and `Transfer-Encoding` a proxy in front of us may have seen another end.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        names = [name for name, _ in scope["headers"]]
        if b"transfer-encoding" in names and b"content-length" in names:
            await _refuse(send, 400, "send Content-Length or Transfer-Encoding, not both")
            return
        is_answered = False

        async def answer(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except asyncio.CancelledError:
            # The server waits no longer. uvicorn would call it an internal error, in plain text.
            if not is_answered:
                await _refuse(send, 503, "the server is stopping")
            raise


async def _refuse(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}, separators=(",", ":")).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
