"""Servers behind a URL."""

import asyncio
from pathlib import Path

import pytest

from tests.ports import reserved_port
from tests.sources.mcp.json_server import JsonServer
from tests.sources.mcp.support import FakeOuter, call, listening, remember, serving, until
from toolfold.config.model import Config
from toolfold.errors import ToolUnreachable
from toolfold.interfaces.config_runtime import open_runtime
from toolfold.runtime import RuntimeSettings
from toolfold.sources.mcp import Bridge, Server


def http(port: int, **fields) -> Server:
    return Server(name="web", transport="http", url=f"http://127.0.0.1:{port}/mcp", **fields)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_over_http_answers_many_calls_and_large_ones(era, tmp_path: Path) -> None:
    port = reserved_port()
    with serving("sdk_server.py", "--http", str(port)):
        await listening(port)
        async with Bridge([http(port)], eras=remember(tmp_path / "eras", era, http(port))) as bridge:
            await bridge.settled(timeout_seconds=60)

            sums = await asyncio.gather(*(call(bridge, "mcp__web__add", a=n, b=1) for n in range(20)))
            large = await call(bridge, "mcp__web__large", size=5_000_000)

            assert bridge.status()[0].era[:4] == ("2025" if era == "legacy" else "2026")
    assert (sums, len(large)) == ([n + 1 for n in range(20)], 5_000_000)


async def test_a_server_over_the_older_sse_transport_works(tmp_path: Path) -> None:
    port = reserved_port()
    server = Server(name="web", transport="sse", url=f"http://127.0.0.1:{port}/sse")
    with serving("sdk_server.py", "--sse", str(port)):
        await listening(port)
        async with Bridge([server], eras=tmp_path / "eras") as bridge:
            await bridge.settled(timeout_seconds=60)

            assert await call(bridge, "mcp__web__total", numbers=[1, 2]) == {"total": 3, "of": [1, 2]}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_question_over_http_reaches_the_client_outside(era, tmp_path: Path) -> None:
    port, outer = reserved_port(), FakeOuter(can_elicit=True)
    with serving("sdk_server.py", "--http", str(port)):
        await listening(port)
        async with Bridge([http(port)], outer=outer, eras=remember(tmp_path / "eras", era, http(port))) as bridge:
            await bridge.settled(timeout_seconds=60)

            assert await call(bridge, "mcp__web__greet") == "hello Ann"


@pytest.mark.long
async def test_a_server_that_is_not_there_yet_is_found_and_one_that_restarts_is_found_again(tmp_path: Path) -> None:
    port = reserved_port()
    async with Bridge([http(port)], eras=remember(tmp_path / "eras", "legacy", http(port))) as bridge:
        await bridge.settled(timeout_seconds=60)
        assert (bridge.status()[0].state, bridge.status()[0].detail) == ("failed", "all connection attempts failed")

        with serving("sdk_server.py", "--http", str(port)):
            await until(lambda: bridge.status()[0].state == "ready", 20)
            first = await call(bridge, "mcp__web__add", a=1, b=1)
        with pytest.raises(ToolUnreachable) as caught:
            await call(bridge, "mcp__web__total", numbers=[])
        with serving("sdk_server.py", "--http", str(port)):
            await listening(port)
            again = await call(bridge, "mcp__web__add", a=2, b=2)

    assert (first, again) == (2, 4)
    assert str(caught.value) == "server 'web' is not available; nothing ran: all connection attempts failed"


async def test_a_server_that_forgot_its_session_is_asked_again_in_a_new_one(tmp_path: Path) -> None:
    port = reserved_port()
    async with Bridge([http(port)], eras=remember(tmp_path / "eras", "legacy", http(port))) as bridge:
        with serving("sdk_server.py", "--http", str(port)):
            await until(lambda: bridge.status()[0].state == "ready")
        with serving("sdk_server.py", "--http", str(port)):
            await listening(port)

            assert await call(bridge, "mcp__web__total", numbers=[1]) == {"total": 1, "of": [1]}


@pytest.mark.parametrize(
    ("is_read_only", "said"),
    [
        (False, "server 'web' was lost during the call; it may have run, so it was not repeated"),
        (True, "server 'web' is not available; nothing ran: the bridge is closed"),
    ],
)
async def test_a_bridge_closes_while_the_answer_of_a_call_arrives(is_read_only, said: str, tmp_path: Path) -> None:
    server = JsonServer(is_read_only=is_read_only)
    async with asyncio.timeout(60), server.serving() as address:
        # The SDK's transport fails to hand the answer over once the session is closed, and raises that in place
        # of the cancellation that closes the bridge.
        async with Bridge([address], eras=remember(tmp_path / "eras", "legacy", address)) as bridge:
            await bridge.settled(timeout_seconds=60)
            waiting = asyncio.create_task(call(bridge, "mcp__web__echo"))
            await server.called.wait()
        with pytest.raises(ToolUnreachable) as caught:
            await waiting

    assert (str(caught.value), server.sessions) == (said, 1)


async def test_a_page_that_is_no_server_says_so(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, Bridge([http(port)], eras=tmp_path / "eras") as bridge:
        await bridge.settled(timeout_seconds=60)

        assert bridge.status()[0].detail == "HTTP 401 Unauthorized"


@pytest.mark.parametrize(
    ("served", "transport", "path", "detail"),
    [
        ("--http", "sse", "mcp", "HTTP 400 Bad Request; if it is a streamable HTTP server, set transport: http"),
        ("--sse", "http", "sse", "HTTP 405 Method Not Allowed; if it is an SSE server, set transport: sse"),
    ],
)
async def test_a_url_of_the_other_transport_says_which_one_to_set(served, transport, path, detail, tmp_path) -> None:
    port = reserved_port()
    server = Server(name="web", transport=transport, url=f"http://127.0.0.1:{port}/{path}")
    with serving("sdk_server.py", served, str(port)):
        await listening(port)
        async with Bridge([server], eras=tmp_path / "eras") as bridge:
            await bridge.settled(timeout_seconds=60)

            assert (bridge.status()[0].state, bridge.status()[0].detail) == ("failed", detail)


@pytest.mark.long
async def test_a_late_server_is_tried_again_when_a_program_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("toolfold.sources.mcp.supervisor.LONGEST_WAIT_SECONDS", 3600.0)
    port = reserved_port()
    servers = [{"name": "web", "transport": "http", "url": f"http://127.0.0.1:{port}/mcp"}]
    config = Config.model_validate({"servers": servers, "ledger": {"where": "memory"}})
    program = "print(await mcp__web__add(a=1, b=2))"
    async with open_runtime(config, [], RuntimeSettings()) as runtime:
        early = await runtime.run(program)
        with serving("sdk_server.py", "--http", str(port)):
            await listening(port)
            late = await runtime.run(program)

    assert (early.status, late.stdout) == ("rejected", "3\n")
    assert early.problem is not None
    assert early.problem.message == "no tool 'mcp__web__add'; the tools are: search_tools"
