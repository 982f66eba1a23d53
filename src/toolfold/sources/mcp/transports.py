"""Transports to MCP servers: child processes, where one line is one message each way, streamable HTTP, and SSE.

Not the SDK's transport for stdio: that one joins what it has read so far with each new piece, so a long line costs its
square (40 MB: 12 s); it passes six variables on; and its two tasks and streams cost more per call than all the rest.

1. The child leads a process group of its own; leaving the block ends the whole group.
2. What cannot be read as a message is kept for error texts and skipped: servers print to stdout.
3. A request that was not handed to the pipe raises `NotSent`, so that its caller may try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import IO, Any, Final, TypeAlias

import anyio
import httpx2
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import next_request_within_origin
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCRequest, jsonrpc_message_adapter

from toolfold.errors import ToolUnreachable
from toolfold.models import MIB
from toolfold.sources.mcp.connection import broken_reply
from toolfold.sources.mcp.server_definition import Server
from toolfold.sources.shell_commands import ENVIRONMENT, ProcessGroup

MAX_LINE_BYTES: Final = 512 * MIB
_QUEUED_MESSAGES: Final = 1000
"""More than this and the server has to wait until they are read."""
_STDERR_BYTES: Final = 8 * MIB
_TAIL_BYTES: Final = 2000
_DRAIN_SECONDS: Final = 0.5
_USUAL: Final = frozenset({*ENVIRONMENT, "LOGNAME", "SHELL", "TERM", "USER"})
"""What commands need to start at all; the config may use these for anything, they are no secrets."""
_EXIT_SECONDS: Final = 2.0
"""From one way to end a server to the next, harder one."""


@asynccontextmanager
async def start_server(server: Server) -> AsyncIterator[ServerProcess]:
    """Start the server's process, which has ended when the block is left; `OSError` if it cannot be started."""
    assert server.command is not None
    if server.cwd is not None and not _is_folder(server.cwd):
        raise ConnectionError(f"no folder {server.cwd!r}; check cwd")
    loop = asyncio.get_running_loop()
    # A real file: a pipe that nobody reads blocks a server that logs much.
    with tempfile.TemporaryFile(mode="a+b", buffering=0) as stderr:
        transport, process = await loop.subprocess_exec(
            lambda: ServerProcess(stderr), _program(server.command), *server.args, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=stderr, cwd=server.cwd, env=environment(server),
            start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            # Shielded: a cancel in these seconds would leave the process behind.
            await asyncio.shield(process.end())
            transport.close()


def _program(command: str) -> str:
    """The command; on Windows the file behind it, as `npx` is `npx.cmd` there."""
    return (shutil.which(command) or command) if sys.platform == "win32" else command


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)


def environment(server: Server) -> dict[str, str]:
    """The user's environment, as Claude Code gives it, without what is ours or withheld; and what the config adds."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _USUAL or (server.inherit_env and not name.startswith("TOOLFOLD_") and name not in server.withheld)
    }
    return {**inherited, **server.env}


class ServerProcess(ProcessGroup):
    """Process of a server, and the SDK's two streams to and from it."""

    def __init__(self, stderr: IO[bytes]) -> None:
        self.exited = asyncio.Event()
        self.inbox = ServerInbox()
        self.inbox.on_empty = self._resume
        self.outbox = ServerOutbox(self._write, lambda: self.is_open)
        self.has_hung_up = False
        """Whether it has exited or closed its output by itself."""
        self.noise = b""
        self._probe_end = 0
        """End of its output that was no message."""
        self._stderr = stderr
        self._pieces: list[bytes] = []
        self._size = 0
        self._writable = asyncio.Event()
        self._writable.set()

    # the event loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        stdin, stdout = self._transport.get_pipe_transport(0), self._transport.get_pipe_transport(1)
        assert isinstance(stdin, asyncio.WriteTransport)
        assert isinstance(stdout, asyncio.ReadTransport)
        self._stdin, self._stdout = stdin, stdout

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if b"\n" not in data:
            self._keep(data)
            return
        *lines, rest = data.split(b"\n")
        lines[0] = b"".join((*self._pieces, lines[0]))
        self._pieces, self._size = [], 0
        for line in lines:
            self._receive(line)
        if rest:
            self._keep(rest)
        if len(self.inbox) > _QUEUED_MESSAGES:
            self._stdout.pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._writable.set()
        if fd == 1:
            self.has_hung_up = True
            self.inbox.end()
        else:
            self._end_soon()

    def process_exited(self) -> None:
        self.has_hung_up = True
        self.kill()  # what it left running may hold our pipes
        self._end_soon()
        self.exited.set()

    def _end_soon(self) -> None:
        """End the inbox after a moment: the last replies may still be in the pipe, which a child may hold open."""
        asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self.inbox.end)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MAX_LINE_BYTES:
            self.noise = b"a line of more than %d MiB" % (MAX_LINE_BYTES // MIB)
            self.kill()
            return
        self._pieces.append(piece)

    def _receive(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self.noise = (self.noise + line + b"\n")[-_TAIL_BYTES:]
            error = broken_reply(line)
            if error is None:
                return
            message = error
        self.inbox.put(SessionMessage(message))

    def _resume(self) -> None:
        with contextlib.suppress(RuntimeError):  # it may have ended in the meantime
            self._stdout.resume_reading()

    # the bridge's side

    @property
    def is_open(self) -> bool:
        return not self.inbox.ended.is_set() and not self._stdin.is_closing()

    async def _write(self, line: bytes) -> None:
        self._trim_stderr()
        is_alone = self._stdin.get_write_buffer_size() == 0
        self._stdin.write(line)
        if is_alone and self._stdin.is_closing():
            raise BrokenPipeError  # asyncio tries to write at once, and closes if that fails
        if not self._writable.is_set():
            await self._writable.wait()

    def _trim_stderr(self) -> None:
        """Keep a server that runs for weeks from filling the disk."""
        if os.fstat(self._stderr.fileno()).st_size > _STDERR_BYTES:
            os.ftruncate(self._stderr.fileno(), 0)
            self._probe_end = 0

    def note_probe(self) -> None:
        """It has read our probe, and what it said of that until now is not why it ends."""
        self._probe_end = os.fstat(self._stderr.fileno()).st_size
        self.noise = b""

    def last_words(self) -> str:
        """End of its stderr, or else of its output that was no message; without what it said of our probe."""
        start = max(0, os.fstat(self._stderr.fileno()).st_size - _TAIL_BYTES)
        words = self._read_stderr(max(start, self._probe_end)).strip() or self.noise
        if not words:
            earlier = self._read_stderr(start)
            words = b"" if b"server/discover" in earlier else earlier
        return words.decode(errors="replace").strip()

    def _read_stderr(self, start: int) -> bytes:
        if sys.platform == "win32":
            self._stderr.seek(start)
            text = self._stderr.read(_TAIL_BYTES)
            self._stderr.seek(0, os.SEEK_END)  # the server writes where this stands
        else:
            text = os.pread(self._stderr.fileno(), _TAIL_BYTES, start)
        return text

    async def end(self) -> None:
        """Close its input, then send SIGTERM, then SIGKILL, as the specification says."""
        self.inbox.end()
        self._stdin.close()
        self._resume()  # a server that is stuck writing cannot see that its input ended
        for softly in (True, False):
            await self.exit_within(_EXIT_SECONDS)
            self.kill(softly=softly)
        await self.exit_within(_EXIT_SECONDS)

    async def exit_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()


# ----------------------------------------------------------------------------------------------------
# Streams for the SDK without its memory channels: fewer tasks and switches for each call.

Item: TypeAlias = SessionMessage | Exception


class NotSent(Exception):
    """The connection was gone before a byte of the request was written: nothing ran."""


class ServerInbox(ObjectReceiveStream[Item]):
    """Messages of a server, in order. Filled by the event loop, read by the SDK."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.on_empty: Callable[[], None] = lambda: None
        self._queue: deque[Item] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, item: Item) -> None:
        self._queue.append(item)
        self._wake()

    def end(self) -> None:
        self.ended.set()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> Item:
        while not self._queue:
            if self.ended.is_set():
                raise anyio.EndOfStream
            self.on_empty()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._queue.popleft()

    async def aclose(self) -> None:
        self.end()


class ServerOutbox(ObjectSendStream[SessionMessage]):
    """Messages to a server, one line each; `write` raises `BrokenPipeError` if nothing was written."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], is_open: Callable[[], bool]) -> None:
        self._write = write
        self._is_open = is_open

    async def send(self, item: SessionMessage, /) -> None:
        try:
            if not self._is_open():
                raise BrokenPipeError
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await self._write(f"{line}\n".encode())
        except BrokenPipeError:
            # The SDK makes one and the same error of a closed stream, before and after the writing.
            raise (NotSent if isinstance(item.message, JSONRPCRequest) else anyio.ClosedResourceError) from None

    async def aclose(self) -> None:
        """Do nothing: the process closes its pipe."""


class WatchedStream(ObjectReceiveStream[Item]):
    """Another transport's read stream, with an event for its end."""

    def __init__(self, stream: ReadStream[Item]) -> None:
        self.ended = asyncio.Event()
        self._stream = stream

    # Any attribute that the SDK looks for, such as the sender's context, is the stream's own.
    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    async def receive(self) -> Item:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self.ended.set()
            raise

    async def aclose(self) -> None:
        self.ended.set()
        await self._stream.aclose()


# ----------------------------------------------------------------------------------------------------
# Streamable HTTP, and the older SSE.
#
# The SDK ends the whole connection when one POST fails to connect, and calls every refusal "an error response".
# `_Client` stands below it and answers such a POST in the server's place, so that only its caller gets the failure,
# and knows whether anything was sent. By SSE, the SDK stops sending after such a POST and tells nobody; `_SseClient`
# answers it on the stream.

NOT_SENT: Final = -32_950
CONNECTION_LOST: Final = -32_951
REFUSED: Final = -32_952
SESSION_UNKNOWN: Final = -32_953
"""Codes of the errors that stand in for a server's own."""
_SECONDS: Final = 30.0
_GOODBYE_SECONDS: Final = 2.0
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
