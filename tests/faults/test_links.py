"""Links do what their faults are called: nothing is found by a checker whose partitions let everything pass."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.faults.links import Kind, Links

pytestmark = pytest.mark.long


class Echo:
    """A server that remembers what it was sent, and says it again."""

    def __init__(self) -> None:
        self.heard = b""
        self.news = asyncio.Event()
        self.open = 0
        self.closed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        with suppress(OSError):
            while data := await reader.read(100):
                self.heard += data
                self.news.set()
                writer.write(data)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self.open -= 1
        self.closed.set()


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[Echo, Links]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    links = Links([server.sockets[0].getsockname()[1]])
    try:
        yield echo, links
    finally:
        links.close()
        server.close()
        while echo.open:
            echo.closed.clear()
            await echo.closed.wait()


@asynccontextmanager
async def connected(links: Links) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", links.ports[0])
    try:
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        yield reader, writer
    finally:
        writer.close()


async def test_what_is_lost_on_its_way_comes_late_although_its_sender_left() -> None:
    async with linked() as (echo, links):
        async with connected(links) as (_, writer):
            echo.news.clear()
            links.set(0, "requests lost")
            writer.write(b"two")
        before = echo.heard
        links.set(0, "whole")
        await echo.news.wait()

    assert (before, echo.heard) == (b"one", b"onetwo")


@pytest.mark.parametrize("kind", ["answers lost", "black hole"])
async def test_an_answer_is_held_until_the_link_is_whole(kind: Kind) -> None:
    async with linked() as (echo, links), connected(links) as (reader, writer):
        echo.news.clear()
        links.set(0, kind)
        writer.write(b"two")
        if kind == "answers lost":
            await echo.news.wait()  # it was done, and nobody hears of it
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        heard = echo.heard
        links.set(0, "whole")
        late = await reader.readexactly(3)

    assert (heard, late) == (b"onetwo" if kind == "answers lost" else b"one", b"two")


@pytest.mark.parametrize("kind", ["answers lost", "reset"])
async def test_a_connection_may_be_dead(kind: Kind) -> None:
    async with linked() as (echo, links), connected(links) as (reader, _):
        links.set(0, kind)
        links.set(0, "whole", is_dead=True)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        async with connected(links):
            pass

    assert echo.heard == b"oneone"


async def test_a_message_is_cut_half_way() -> None:
    seen: set[bytes] = set()
    async with linked() as (_, links):
        links.set(0, "cut half-way")
        while b"1234" not in seen or len(seen) < 2:
            seen.add(await answer(links))

    assert seen - {b""} <= {b"1", b"12", b"1234"}


async def answer(links: Links) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", links.ports[0])
    heard = b""
    try:
        writer.write(b"1234")
        while len(heard) < 4 and (data := await reader.read(4)):
            heard += data
    except ConnectionResetError:
        pass
    finally:
        writer.close()
    return heard
