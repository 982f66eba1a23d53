"""Direct connection from the runtime to a node: the same messages as through Ray, a call's round trip in a sixth.

The node listens for one connection, which must begin with a secret that went through Ray. What comes in is as hostile
as before; a message's length is checked before a byte of it is kept. Knows nothing of Ray.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from toolfold.engines.ray.wire_messages import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from toolfold.engines.ray.node import Node

_TOKEN_BYTES: Final = 32
_HANDSHAKE_SECONDS: Final = 5.0
_HEADER: Final = struct.Struct("!Q")


class Frames(asyncio.Protocol):
    """Messages over a stream of bytes. A protocol, not a reader: a task less is woken for each message."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._transport: asyncio.Transport | None = None
        self.is_full = False
        """Whether the peer reads more slowly than this side writes."""

    def hear(self, body: bytes) -> None:
        """Called with each message."""
        raise NotImplementedError

    def has_room(self) -> None:
        """Called when the peer has caught up."""

    def breach(self, reason: str) -> None:
        """Called when the peer announces a message that is too long."""
        self.abort()

    def write(self, body: bytes) -> None:
        if self._transport is not None:
            self._transport.write(_HEADER.pack(len(body)) + body)

    def close(self) -> None:
        """Hang up once all is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Hang up at once, and ignore what is still on its way."""
        self._bytes.clear()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self.has_room()

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= _HEADER.size:
            (size,) = _HEADER.unpack_from(self._bytes)
            if size > MAX_MESSAGE_BYTES:
                self.breach(f"a message of {size} bytes")
                return
            end = _HEADER.size + size
            if len(self._bytes) < end:
                return
            body = bytes(memoryview(self._bytes)[_HEADER.size : end])
            del self._bytes[:end]
            self.hear(body)


class DirectServer:
    """Listener of a node; `on_end` is called when its runtime is gone, and no program here is wanted any more."""

    def __init__(self, node: Node, on_end: Callable[[], Awaitable[None]]) -> None:
        self.node = node
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        self._on_end = on_end
        self._server: asyncio.Server | None = None
        self._runtime_connection: _IncomingConnection | None = None
        self._ending: asyncio.Future[None] | None = None

    async def open(self, host: str) -> tuple[int, bytes]:
        """Listen; the port, and the secret that a connection must begin with."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _IncomingConnection(self), host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port, self.token

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def accepts(self, connection: _IncomingConnection) -> bool:
        """Whether it is the runtime's: the first that knows the secret is."""
        if self._runtime_connection is not None:
            return False
        self._runtime_connection = connection
        self.close()
        self.node.speak_to(connection)
        return True

    def note_end(self, connection: _IncomingConnection) -> None:
        if connection is self._runtime_connection:
            self.node.speak_to(None)
            self._ending = asyncio.ensure_future(self._on_end())


class _IncomingConnection(Frames):
    """Connection to a node: a stranger's until it has sent the secret."""

    def __init__(self, server: DirectServer) -> None:
        super().__init__()
        self._server = server
        self._is_known = False
        self._patience = asyncio.get_running_loop().call_later(_HANDSHAKE_SECONDS, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._is_known:
            super().data_received(data)
            return
        self._bytes += data
        if len(self._bytes) < _TOKEN_BYTES:
            return
        token, rest = bytes(self._bytes[:_TOKEN_BYTES]), bytes(self._bytes[_TOKEN_BYTES:])
        self._bytes.clear()
        if not hmac.compare_digest(token, self._server.token) or not self._server.accepts(self):
            self.abort()
            return
        self._is_known = True
        self._patience.cancel()
        super().data_received(rest)

    def hear(self, body: bytes) -> None:
        self._server.node.receive(body)

    def has_room(self) -> None:
        self._server.node.speak()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        self._server.note_end(self)


class DirectMailbox(Frames):
    """`Mailbox` of the runtime; nothing is read before `attach`."""

    def __init__(self) -> None:
        super().__init__()
        self._hear: Callable[[bytes], None] | None = None
        self._lose: Callable[[str], None] | None = None
        self._has_room: Callable[[], None] | None = None

    @classmethod
    async def connect(cls, host: str, port: int, token: bytes) -> DirectMailbox:
        """Connect, and send the secret; `OSError` if nobody listens there, or a firewall is between."""
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            transport, mailbox = await asyncio.get_running_loop().create_connection(cls, host, port)
        transport.pause_reading()
        transport.write(token)
        return mailbox

    def attach(self, hear: Callable[[bytes], None], lose: Callable[[str], None], has_room: Callable[[], None]) -> None:
        self._hear, self._lose, self._has_room = hear, lose, has_room
        assert self._transport is not None
        if self._transport.is_closing():
            lose("the connection is closed")
        else:
            self._transport.resume_reading()

    def detach(self) -> None:
        """Deliver nothing more; the connection stays open."""
        self._hear = self._lose = self._has_room = None

    def hear(self, body: bytes) -> None:
        if self._hear is not None:
            self._hear(body)

    def has_room(self) -> None:
        if self._has_room is not None:
            self._has_room()

    def breach(self, reason: str) -> None:
        self.abort()
        if self._lose is not None:
            self._lose(f"it sent {reason}")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lose is not None:
            self._lose("the connection is closed" if exc is None else f"{type(exc).__name__}: {exc}")
