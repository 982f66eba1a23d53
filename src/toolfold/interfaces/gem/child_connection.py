"""Connection to the child process for synchronous code: one event loop in its own thread, shared by tools."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Hashable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from mcp_types import CallToolResult, ListToolsResult

_T = TypeVar("_T")


class Child(Protocol):
    """Runner of the programs: the SDK's client of a child process, or a substitute."""

    # Any: arguments are JSON, and the SDK has types of its own for the rest.
    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, meta: Any = None
    ) -> CallToolResult: ...
    async def list_tools(self, *, cache_mode: Any = ...) -> ListToolsResult: ...


_ANSWER_SECONDS: Final = 10.0
"""Others may share the child: one that is only busy must not be taken for a dead one."""

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager["Child"]]


class ChildConnection:
    """Connects when it is first used, and again after the child is gone. Used from any thread."""

    def __init__(self, connect: Connect) -> None:
        self.shares = 0
        self._connect = connect
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._client_task: _ClientTask | None = None

    def run(self, work: Callable[[Child], Coroutine[object, None, _T]]) -> _T:
        """Do something with the client; blocks until it is done."""
        future = asyncio.run_coroutine_threadsafe(self._with_client(work), self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: the program ends, too
            raise

    def close(self) -> None:
        """End the child, and the thread; the next use starts them anew."""
        if threading.current_thread() is self._thread:
            # The garbage collector may come by anywhere, and a loop cannot wait for itself.
            threading.Thread(target=self.close).start()
            return
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
            if loop is None or thread is None or self._process != os.getpid():
                return
            asyncio.run_coroutine_threadsafe(self._leave(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # After a fork the loop is a copy without its thread.
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process, self._client_task = asyncio.new_event_loop(), os.getpid(), None
                self._thread = threading.Thread(target=self._loop.run_forever, name="toolfold-link", daemon=True)
                self._thread.start()
            return self._loop

    async def _with_client(self, work: Callable[[Child], Coroutine[object, None, _T]]) -> _T:
        if self._client_task is None or self._client_task.is_over:
            self._client_task = _ClientTask(self._connect)
        client_task = self._client_task
        try:
            return await work(await client_task.client())
        except Exception:
            # A session does not come back to life; whether the child lives is found out by the next use.
            if client_task.is_over or not await client_task.answers():
                await client_task.leave()
            raise

    async def _leave(self) -> None:
        if self._client_task is not None:
            await self._client_task.leave()


class _ClientTask:
    """A client that is entered and left in one task, as its cancel scopes require."""

    def __init__(self, connect: Connect) -> None:
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(connect))

    @property
    def is_over(self) -> bool:
        return self._stop.is_set() or self._task.done()

    async def client(self) -> Child:
        return await asyncio.shield(self._ready)

    async def answers(self) -> bool:
        """Whether the other side still reads what we write."""
        if not self._ready.done() or self._ready.cancelled() or self._ready.exception() is not None:
            return False
        with suppress(Exception):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._ready.result().list_tools(cache_mode="bypass")
                return True
        return False

    async def leave(self) -> None:
        self._stop.set()
        with suppress(Exception):
            await self._task

    async def _hold(self, connect: Connect) -> None:
        try:
            async with connect() as client:
                self._ready.set_result(client)
                await self._stop.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
                return  # whoever asked for the client is told
            raise


# ----------------------------------------------------------------------------------------------------
# One child for all tool objects of a process that want the same one: starting it takes a second and 150 MB.


class ChildRunner(Protocol):
    """A way to the child: a connection of one's own, or a share of one."""

    def run(self, work: Callable[[Child], Coroutine[object, None, _T]]) -> _T: ...
    def close(self) -> None: ...


_shared_links: dict[Hashable, ChildConnection] = {}
_lock = threading.Lock()


class SharedConnection:
    """A share of the connection with this key, which ends with its last share. Used from any thread."""

    def __init__(self, key: Hashable, connect: Connect) -> None:
        self._key = key
        self._connect = connect
        self._link: ChildConnection | None = None

    def run(self, work: Callable[[Child], Coroutine[object, None, _T]]) -> _T:
        with _lock:
            link = self._link
            if link is None:
                link = self._link = _shared_links.setdefault(self._key, ChildConnection(self._connect))
                link.shares += 1
        return link.run(work)

    def close(self) -> None:
        """Give the share back; the next use takes a new one."""
        with _lock:
            link, self._link = self._link, None
            if link is None:
                return
            link.shares -= 1
            if link.shares:
                return
            del _shared_links[self._key]
        link.close()
