"""The SDK's two streams without its memory channels: fewer tasks and switches for each call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

Item: TypeAlias = SessionMessage | Exception


class NotSent(Exception):
    """The connection was gone before a byte of the request was written: nothing ran."""


class Inbox(ObjectReceiveStream[Item]):
    """What a server sent, in order. Filled by the event loop, read by the SDK."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        """Nothing more will come."""
        self.on_empty: Callable[[], None] = _nothing
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


class Outbox(ObjectSendStream[SessionMessage]):
    """What goes to a server, one line for each message; `write` raises `BrokenPipeError` if nothing was written."""

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
        """Nothing to do: whoever made the pipe closes it."""


class Watched(ObjectReceiveStream[Item]):
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


def _nothing() -> None:
    return
