"""Servers behind the older SSE transport, where a request goes one way and its answer comes another."""

import asyncio
from pathlib import Path

import pytest

from tests.sources.mcp.sse_server import Mishap, SseServer, event
from tests.sources.mcp.support import call
from toolfold.errors import ToolError, ToolUnreachable
from toolfold.sources.mcp import Bridge

LOST = "server 'web' was lost during the call; it may have run, so it was not repeated"


async def test_a_bridge_closes_while_the_server_goes_on_talking(tmp_path: Path) -> None:
    server = SseServer()
    server.tail = event({"method": "notifications/message", "params": {"level": "info", "data": "x"}}) * 5000
    async with asyncio.timeout(60), server.serving() as address, Bridge([address], eras=tmp_path / "eras") as bridge:
        await bridge.settled(timeout_seconds=60)
        answer = await call(bridge, "mcp__web__echo")

    assert (answer, len(server.streams)) == ("hello", 1)


@pytest.mark.parametrize(
    ("mishap", "said", "connections"),
    [
        ("503 Service Unavailable", "HTTP 503 Service Unavailable", 1),
        ("hangs up", LOST, 2),
        ("too large", LOST, 2),
    ],
)
async def test_a_call_that_failed_ends_and_the_next_one_is_answered(
    mishap: Mishap, said: str, connections: int, tmp_path: Path
) -> None:
    server = SseServer(mishap)
    async with asyncio.timeout(60), server.serving() as address, Bridge([address], eras=tmp_path / "eras") as bridge:
        await bridge.settled(timeout_seconds=60)
        with pytest.raises(ToolError) as caught:
            await call(bridge, "mcp__web__echo")
        answer = await call(bridge, "mcp__web__echo")

    assert (str(caught.value), answer, len(server.streams)) == (said, "hello", connections)


async def test_a_call_to_a_server_that_forgot_the_session_is_made_in_a_new_one(tmp_path: Path) -> None:
    server = SseServer("404 Not Found")
    async with asyncio.timeout(60), server.serving() as address, Bridge([address], eras=tmp_path / "eras") as bridge:
        await bridge.settled(timeout_seconds=60)
        answer = await call(bridge, "mcp__web__echo")

    assert (answer, len(server.streams)) == ("hello", 2)


async def test_a_call_that_cannot_be_sent_says_that_nothing_ran(tmp_path: Path) -> None:
    server = SseServer()
    async with asyncio.timeout(60), server.serving() as address, Bridge([address], eras=tmp_path / "eras") as bridge:
        await bridge.settled(timeout_seconds=60)
        server.hide()
        with pytest.raises(ToolUnreachable) as caught:
            await call(bridge, "mcp__web__echo")

    assert str(caught.value) == "server 'web' is not available; nothing ran: all connection attempts failed"
