"""HTTP server: the listening socket, its connections, their number, and idle and write timeouts."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolfold.errors import UsageError
from toolfold.interfaces.server.local_requests import send_error

# ----------------------------------------------------------------------------------------------------
# Connections of an interface that listens: how many there are, how long each may say nothing, how slowly it may read.
#
# 1. A connection that has not sent a whole head in time is cut, also behind an answer.
# 2. One that does not read its answer is cut; so at most a few buffers are held for it.
# 3. At the limit one that only waits makes room, but hardly one that has just come: it usually has a request.
# 4. Without a free descriptor nothing is accepted for a moment, and the log has one line about it.
# 5. A request that is made to wait on purpose, with `rest`, counts among those that only wait.
# 6. Who asks for another protocol is answered in this one.

_log: Final = logging.getLogger(__name__)
_MOST: Final = 2000
_AT_ONCE: Final = 64
_AGAIN_SECONDS: Final = 0.1
_SHUTDOWN_SECONDS: Final = 2.0
_NEW_SECONDS: Final = 1.0
"""So long a connection has just come; a client that means well sends its head meanwhile."""
_LOG_EVERY_SECONDS: Final = 10.0
_CLOSE: Final = (b"connection", b"close")
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def default_connection_limit() -> int:
    """Half of the descriptors that this process may have: guests, files and the ledger need theirs."""
    if sys.platform == "win32":  # has no such limit
        return _MOST
    import resource  # noqa: PLC0415  # not on Windows

    return max(8, min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits on the connections of a server."""

    connections: int = field(default_factory=default_connection_limit)
    head_seconds: float = 10.0
    """From the first moment, or the first byte behind an answer, to the end of a request's head."""
    write_seconds: float = 30.0
    """In which a client must have read enough for more to be written."""


class Connections:
    """All connections of one server, and which of them only wait."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: set[HttpConnection] = set()
        # Ordered by age: those without a request so far, with when they came, and those between two requests.
        self._silent: dict[HttpConnection, float] = {}
        self._idle: dict[HttpConnection, None] = {}

    def add(self, connection: HttpConnection) -> None:
        self._all.add(connection)
        self._silent[connection] = time.monotonic()

    def busy(self, connection: HttpConnection) -> None:
        self._silent.pop(connection, None)
        self._idle.pop(connection, None)

    def idle(self, connection: HttpConnection) -> None:
        if connection not in self._silent:
            self._idle[connection] = None

    def remove(self, connection: HttpConnection) -> None:
        self._all.discard(connection)
        self.busy(connection)

    def is_full(self, starting: int) -> bool:
        """Whether one more would be too many, beside those that start now."""
        return len(self._all) + starting >= self.limits.connections

    @property
    def can_drop(self) -> bool:
        return bool(self._silent or self._idle)

    def drop_one(self) -> None:
        """Cut a connection that only waits: the oldest silent one, unless it has just come and another is idle."""
        silent, came = next(iter(self._silent.items()), (None, 0.0))
        has_just_come = time.monotonic() - came < _NEW_SECONDS
        idle = next(iter(self._idle), None)
        connection = idle if silent is None or (has_just_come and idle is not None) else silent
        if connection is not None:
            self.remove(connection)
            connection.transport.abort()


class HttpConnection(H11Protocol):
    """uvicorn's connection, with timeouts for request heads and slow readers."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connections = connections
        self._weakly = weakref.ref(self)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._resting: asyncio.Future[bool] | None = None

    # Any transport will do; uvicorn's own type is narrower than that of the base class, too.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connections.add(self)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        _current.set(self._weakly)  # for the task of a request that begins here
        super().data_received(data)
        if self._is_served():
            if self._resting is None:
                self._connections.busy(self)
            self._head_timer = _cancel_timer(self._head_timer)
        elif self._head_timer is None:
            self._await_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_served():  # a request that came behind it may have begun
            self._connections.idle(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._head_timer = _cancel_timer(self._head_timer)
        self._write_timer = _cancel_timer(self._write_timer)
        if self._resting is not None:
            _settle(self._resting, False)
        super().connection_lost(exc)

    async def rest(self, seconds: float) -> bool:
        resting = self._resting = self.loop.create_future()
        timer = self.loop.call_later(seconds, _settle, resting, True)
        self._connections.idle(self)
        try:
            return not self.transport.is_closing() and await resting
        finally:
            timer.cancel()
            self._connections.busy(self)
            self._resting = None

    @property
    def has_whole_body(self) -> bool:
        return self._is_served() and not self.cycle.more_body

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        self._write_timer = _cancel_timer(self._write_timer)
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._await_reader()

    def shutdown(self) -> None:
        """No more than what is under way, and nothing for those who do not send or read it."""
        is_unsent = self._is_served() and self.cycle.more_body and not self.cycle.response_started
        if is_unsent or self._resting is not None:
            self.transport.abort()
            return
        super().shutdown()
        is_stuck = self._write_timer is not None or self.transport.is_closing()
        if is_stuck and self.transport.get_write_buffer_size():
            self._write_timer = _cancel_timer(self._write_timer)
            self._write_timer = self.loop.call_later(_SHUTDOWN_SECONDS, self.transport.abort)

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: a server may answer in HTTP/1.1, and uvicorn would write two lines for each that asks for more."""

    def _is_served(self) -> bool:
        # uvicorn's type says that it is always there; before the first request it is not.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._connections.limits.head_seconds, self.transport.abort)

    def _await_reader(self) -> None:
        """A transport that is closed still waits for what it has to be read."""
        if self._write_timer is None and self.transport.get_write_buffer_size():
            self._write_timer = self.loop.call_later(self._connections.limits.write_seconds, self.transport.abort)


# Weakly: timers and tasks that a request leaves behind, such as the deadline of its execution, keep its context.
_current: Final[ContextVar[Callable[[], HttpConnection | None]]] = ContextVar("connection", default=lambda: None)


async def rest(seconds: float) -> bool:
    """Let a request wait, on a connection that may be cut to make room; whether it is still there."""
    connection = _current.get()()
    if seconds <= 0:
        return True
    if connection is None:  # another server than ours
        await asyncio.sleep(seconds)
        return True
    return await connection.rest(seconds)


def has_whole_body() -> bool:
    connection = _current.get()()
    return connection is not None and connection.has_whole_body


class Listener:
    """Accepts connections; takes the place of asyncio's own server, which floods the log without descriptors."""

    def __init__(self, listening: socket.socket, connections: Connections, make: Callable[[], HttpConnection]) -> None:
        self._listening = listening
        self._connections = connections
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._starting: set[asyncio.Task[Any]] = set()
        self._logged_at = -_LOG_EVERY_SECONDS
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        self._again = _cancel_timer(self._again)
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())

    async def wait_closed(self) -> None:
        """For uvicorn: its connections are waited for elsewhere."""

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            is_full = self._connections.is_full(len(self._starting))
            if is_full and not self._connections.can_drop:
                self._back_off(f"all {self._connections.limits.connections} connections are in use")
                return
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self._connections.drop_one()
                self._back_off((error.strerror or str(error)).lower())
                return
            if is_full:
                self._connections.drop_one()
            task = self._loop.create_task(self._loop.connect_accepted_socket(self._make, accepted))
            self._starting.add(task)
            task.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[Any]) -> None:
        self._starting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("a connection was closed before it was accepted: %s", error)

    def _back_off(self, reason: str) -> None:
        """Whoever comes meanwhile waits in the kernel's queue."""
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY_SECONDS:
            self._logged_at = now
            _log.warning("new connections have to wait: %s", reason)
        self._loop.remove_reader(self._listening.fileno())
        self._again = self._loop.call_later(_AGAIN_SECONDS, self._resume)

    def _resume(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._accept)
        self._accept()


def _settle(resting: asyncio.Future[bool], is_there: bool) -> None:
    if not resting.done():
        resting.set_result(is_there)


def _cancel_timer(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None


def listen(host: str, port: int, *, advice: str = "choose another port") -> socket.socket:
    """Open the address; port 0 picks a free one, and `advice` is the next step where the port is taken."""
    if sys.platform == "win32":
        raise UsageError("toolfold does not listen on Windows; use stdio, or run it in WSL or a container")
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


class HttpServer(uvicorn.Server):
    """uvicorn with limits of ours on connections and heads; options are those of its config.

    It leaves signals to us: uvicorn would raise them again before our guests have ended.
    """

    # Any: each option of uvicorn has its own type.
    def __init__(self, app: ASGIApp, limits: ConnectionLimits | None = None, **options: Any) -> None:
        # Without WebSockets, which no interface speaks: uvicorn would load them where the package is there by chance,
        # and hand over connections that our limits would no longer hold.
        super().__init__(uvicorn.Config(_StrictHttp(app), log_level="warning", http="h11", ws="none", **options))
        self._connections = Connections(limits or ConnectionLimits())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # with none of its own

        def make() -> HttpConnection:
            return HttpConnection(
                self._connections, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

        # uvicorn closes these and waits for them, and no more.
        servers: list[Any] = [Listener(listening, self._connections, make) for listening in sockets or ()]
        self.servers = servers

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _StrictHttp:
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
            await send_error(send, 400, "send Content-Length or Transfer-Encoding, not both", _CLOSE)
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
                await send_error(send, 503, "the server is stopping", _CLOSE)
            raise
