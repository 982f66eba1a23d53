"""Servers behind the older SSE transport, where a request goes one way and its answer comes another."""

import asyncio
from pathlib import Path

from tests.sources.mcp.sse_server import SseServer, event
from tests.sources.mcp.support import call
from toolfold.sources.mcp import Bridge


async def test_a_bridge_closes_while_the_server_goes_on_talking(tmp_path: Path) -> None:
    server = SseServer()
    # The SDK's transport fails to hand these over once the session is closed, and raises that in place
    # of the cancellation that closes the bridge.
    server.tail = event({"method": "notifications/message", "params": {"level": "info", "data": "x"}}) * 1000
    async with asyncio.timeout(60), server.serving() as address, Bridge([address], eras=tmp_path / "eras") as bridge:
        await bridge.settled(timeout_seconds=60)
        answer = await call(bridge, "mcp__web__echo")

    assert (answer, len(server.streams)) == ("hello", 1)
