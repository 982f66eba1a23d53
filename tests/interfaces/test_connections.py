"""Connections that say nothing, that do not read, that are too many: cut, and the others are served."""

import asyncio
import gc
import logging
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest

from toolfold.interfaces.server.http_server import ConnectionLimits, HttpConnection, HttpServer, listen, rest

Address = tuple[str, int]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MEGABYTE = 1_000_000


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once; `/large` with more than any buffer holds, bit by bit."""
    pieces = 200 if scope["path"] == "/large" else 0
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"keep-alive")]})
    for _ in range(pieces):
        await send({"type": "http.response.body", "body": b"x" * MEGABYTE, "more_body": True})
    await send({"type": "http.response.body", "body": b"done"})


@asynccontextmanager
async def served(serves: Any = app, **patience: Any) -> AsyncIterator[tuple[Address, HttpServer]]:
    listening = listen("127.0.0.1", 0)
    server = HttpServer(serves, ConnectionLimits(**patience), lifespan="off", timeout_graceful_shutdown=5)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield listening.getsockname(), server
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def connected(address: Address, *, count: int = 1) -> AsyncIterator[list[Streams]]:
    opened = [await asyncio.open_connection(*address) for _ in range(count)]
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.close()


async def is_cut(streams: Streams) -> bool:
    """Returns once the server has ended the connection."""
    try:
        while await streams[0].read(65536):
            pass
    except ConnectionError:
        pass
    return True


async def get(address: Address, path: str = "/") -> str:
    async with httpx.AsyncClient(timeout=30) as client:
        return (await client.get(f"http://{address[0]}:{address[1]}{path}")).text


async def test_a_connection_without_a_request_is_cut() -> None:
    async with served(head_seconds=0.05) as (address, _), connected(address) as [silent]:
        assert await is_cut(silent)


async def test_a_head_that_comes_too_slowly_is_cut() -> None:
    async with served(head_seconds=0.1) as (address, _), connected(address) as [slow]:
        slow[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n")
        cut = asyncio.create_task(is_cut(slow))
        while not cut.done():
            slow[1].write(b"X: y\r\n")
            await asyncio.sleep(0.01)

    assert cut.result()


async def test_a_head_that_comes_too_slowly_behind_an_answer_is_cut() -> None:
    async with served(head_seconds=0.1) as (address, _), connected(address) as [slow]:
        slow[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await slow[0].readuntil(b"done")
        slow[1].write(b"GET / HT")

        assert await is_cut(slow)


async def test_who_does_not_read_is_cut_and_holds_no_more_than_buffers() -> None:
    async with served(write_seconds=0.1) as (address, server), connected(address) as [lazy]:
        lazy[1].write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await lazy[0].readexactly(1)
        transport: Any = lazy[1].transport
        transport.pause_reading()
        while server.server_state.connections:
            await asyncio.sleep(0.01)
        transport.resume_reading()

        assert await is_cut(lazy)


async def test_who_reads_gets_all_however_large() -> None:
    async with served(write_seconds=5) as (address, _):
        assert len(await get(address, "/large")) == 200 * MEGABYTE + len("done")


async def test_at_the_limit_the_oldest_that_waits_makes_room() -> None:
    async with served(connections=8) as (address, server), connected(address, count=8) as waiting:
        while len(server.server_state.connections) < 8:
            await asyncio.sleep(0.01)
        answer = await get(address)
        cut = await is_cut(waiting[0])

        assert (answer, cut, waiting[1][0].at_eof()) == ("done", True, False)


async def test_one_that_has_just_come_stays_where_one_between_two_requests_can_make_room() -> None:
    async with served(connections=2) as (address, server), connected(address) as [between]:
        between[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await between[0].readuntil(b"done")
        async with connected(address) as [new]:
            while len(server.server_state.connections) < 2:
                await asyncio.sleep(0.01)
            answer = await get(address)
            cut = await is_cut(between)
            new[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

            assert (answer, cut, (await new[0].readuntil(b"done"))[-4:]) == ("done", True, b"done")


async def test_a_request_that_rests_makes_room_before_one_that_has_just_come() -> None:
    async def resting_app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/rest":
            await rest(60)
        await app(scope, receive, send)

    async with served(resting_app, connections=2) as (address, server), connected(address, count=2) as [resting, new]:
        resting[1].write(b"GET /rest HTTP/1.1\r\nHost: a\r\n\r\n")
        while len(server.server_state.tasks) < 1:
            await asyncio.sleep(0.01)
        answer = await get(address)
        cut = await is_cut(resting)
        new[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

        assert (answer, cut, (await new[0].readuntil(b"done"))[-4:]) == ("done", True, b"done")


async def test_where_all_are_busy_the_next_waits_for_one_to_end(caplog: pytest.LogCaptureFixture) -> None:
    async with served(connections=2, write_seconds=60) as (address, _), connected(address, count=2) as busy:
        for _, writer in busy:
            writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.gather(*(reader.readexactly(1) for reader, _ in busy))
        answer = asyncio.create_task(get(address))
        while "new connections have to wait" not in caplog.text:
            await asyncio.sleep(0.01)
        for _, writer in busy:
            writer.transport.abort()

        assert await answer == "done"


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """No more descriptors than are open now, and some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest.fileno() + spare, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_descriptors_the_log_gets_one_line_and_service_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with served(connections=1000) as (address, _):
        clients = [socket.socket() for _ in range(60)]
        with few_descriptors(spare=4), caplog.at_level(logging.WARNING):
            for client in clients:
                client.setblocking(False)
                client.connect_ex(address)
            while "new connections have to wait" not in caplog.text:
                await asyncio.sleep(0.01)
            for client in clients[30:]:
                client.close()
        answer = await get(address)
        for client in clients:
            client.close()

    lines = [record.getMessage() for record in caplog.records]
    assert (answer, lines) == ("done", ["new connections have to wait: too many open files"])


async def test_a_body_that_ends_in_two_ways_is_refused() -> None:
    async with served() as (address, _), connected(address) as [smuggler]:
        smuggler[1].write(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n"
        )
        answer = await smuggler[0].read()

    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b'{"error":"send Content-Length or Transfer-Encoding, not both"}')


async def test_a_server_that_ends_does_not_wait_for_bodies_and_readers_that_never_come() -> None:
    async with served(write_seconds=60) as (address, server), connected(address, count=2) as [lazy, silent]:
        lazy[1].write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await lazy[0].readexactly(1)
        lazy[1].transport.pause_reading()  # type: ignore[attr-defined]
        silent[1].write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        server.should_exit = True
        while server.server_state.connections:
            await asyncio.sleep(0.01)

        assert await is_cut(silent)


async def test_a_request_that_is_made_to_wait_may_be_cut_for_one_that_comes() -> None:
    from toolfold.interfaces.server.http_server import rest

    said: list[bool] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/wait":
            said.append(await rest(60))
            return
        await app(scope, receive, send)

    async with served(slow, connections=2) as (address, _), connected(address, count=2) as (first, second):
        for streams in (first, second):
            streams[1].write(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        async with httpx.AsyncClient(base_url=f"http://{address[0]}:{address[1]}") as client:
            answer = await client.get("/")

        assert (answer.text, await is_cut(first), said) == ("done", True, [False])


async def test_who_asks_for_another_protocol_is_answered_in_this_one_and_the_log_has_no_line(caplog) -> None:
    upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    async with served() as (address, _), connected(address) as [streams]:
        answers = []
        for name in ("websocket", "h2c"):
            streams[1].write(upgrade.format(name).encode())
            answers.append((await streams[0].readuntil(b"done")).split(b"\r\n")[0])
            await streams[0].readuntil(b"\r\n0\r\n\r\n")

    assert (answers, caplog.messages) == ([b"HTTP/1.1 200 OK"] * 2, [])


async def test_a_timer_that_a_request_leaves_behind_does_not_keep_its_connection() -> None:
    timers: list[asyncio.TimerHandle] = []

    async def leaves_a_timer(scope: Any, receive: Any, send: Any) -> None:
        timers.append(asyncio.get_running_loop().call_later(60, print))
        await app(scope, receive, send)

    async with served(leaves_a_timer) as (address, server):
        async with connected(address, count=3) as opened:
            for reader, writer in opened:
                writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                await reader.readuntil(b"done")
        while server.server_state.connections:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)  # what closed the last one has ended, too
        gc.collect()
        kept = [one for one in gc.get_objects() if isinstance(one, HttpConnection)]

    assert (len(timers), kept) == (3, [])
    for timer in timers:
        timer.cancel()
