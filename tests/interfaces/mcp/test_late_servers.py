"""Servers that take longer to start than a client waits: they are found all the same."""

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mcp import Client

from tests.interfaces.mcp.conftest import ERAS, FakeBridge, Server, bridged, run, texts
from tests.sources.mcp.support import until
from toolfold.config import parse_config
from toolfold.interfaces.mcp.server import FIRST_LIST_WAIT_SECONDS
from toolfold.interfaces.mcp.server_setup import create_mcp_server
from toolfold.tools.tool import Tool

GATED = Path(__file__).parents[2] / "sources" / "mcp" / "gated_server.py"


@dataclass
class LateBridge(FakeBridge):
    """Its servers come up for whoever waits longer than the first list does; without `coming`, for nobody."""

    coming: list[Tool] = field(default_factory=list)

    async def settled(self, names: Iterable[str] | None = None, *, timeout_seconds: float) -> None:
        self.waited_for.append(None if names is None else list(names))
        if timeout_seconds > FIRST_LIST_WAIT_SECONDS and self.coming:
            self.arrive("late", *self.coming)
            self.coming = []


def late(*coming: Tool, **fields: object) -> LateBridge:
    return LateBridge({"late": Server("late", "connecting", **fields)}, coming=list(coming))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ERAS)
async def test_search_is_offered_from_the_first_list_on_while_a_server_is_connecting(open_client, mode) -> None:
    async with open_client(bridge=late(), mode=mode) as client:
        tools = (await client.list_tools()).tools

    described = tools[0].description or ""
    assert [tool.name for tool in tools] == ["execute_program", "search_tools"]
    assert described.splitlines()[-1] == "Still connecting; `search_tools` waits for them: late"


async def test_the_search_of_a_client_waits_for_what_is_connecting(open_client) -> None:
    async with open_client(bridge=late(bridged("late", "send_invoice"))) as client:
        await client.list_tools()
        found = await client.call_tool("search_tools", {"query": "invoice", "detail": "name"})

    assert texts(found) == ["mcp__late__send_invoice: "]


async def test_the_search_of_a_program_waits_too_and_what_it_finds_can_be_called(open_client) -> None:
    async def send() -> str:
        return "sent"

    code = "[found] = await search_tools('invoice')\nprint(found['name'], getattr(tools, found['name'])())"
    async with open_client(bridge=late(bridged("late", "send_invoice", send))) as client:
        await client.list_tools()
        result = await run(client, code)

    assert texts(result) == ["[Script executed successfully]\nmcp__late__send_invoice sent\n"]


async def test_a_search_whose_wait_is_over_says_which_server_is_missing(open_client) -> None:
    code = "try:\n    await search_tools('invoice')\nexcept ToolError as error:\n    print(error)"
    async with open_client(bridge=late()) as client:
        found = await client.call_tool("search_tools", {"query": "invoice"})
        result = await run(client, code)

    missing = "no tool fits 'invoice' yet: server 'late' is still connecting; search again later"
    assert texts(found) == [missing]
    assert texts(result) == [f"[Script executed successfully]\n'search_tools' failed: {missing}\n"]


async def test_what_is_found_meanwhile_is_told_with_the_server_that_is_missing(open_client) -> None:
    bridge = late()
    bridge.servers["git"] = Server("git", tools=1)
    bridge.known.append(bridged("git", "log"))
    async with open_client(bridge=bridge) as client:
        found = await client.call_tool("search_tools", {"query": "log", "detail": "name"})
        inside = await run(client, "print([one['name'] for one in await search_tools('log')])")

    assert texts(found) == ["mcp__git__log: \n\nserver 'late' is still connecting; its tools are not among these"]
    assert texts(inside) == ["[Script executed successfully]\n['mcp__git__log']\n"]


async def test_a_program_can_call_a_tool_from_the_moment_that_its_server_lists_it(open_client) -> None:
    async def send() -> str:
        return "sent"

    bridge = late()
    async with open_client(bridge=bridge) as client:
        await run(client, "1")
        bridge.arrive("late", bridged("late", "send_invoice", send))
        result = await run(client, "print(mcp__late__send_invoice())")

    assert texts(result) == ["[Script executed successfully]\nsent\n"]


async def test_a_client_is_told_of_new_tools_also_where_a_program_was_first(open_client) -> None:
    bridge = late()
    async with open_client(bridge=bridge) as client:
        await run(client, "1")
        async with client.listen(tools_list_changed=True) as events:
            bridge.arrive("late", bridged("late", "send_invoice"))
            result = await run(client, "[found] = search_tools('invoice')\nprint(found['name'])")
            event = await anext(events)

    assert texts(result) == ["[Script executed successfully]\nmcp__late__send_invoice\n"]
    assert type(event).__name__ == "ToolsListChanged"


async def test_tools_of_last_time_are_in_the_first_list_which_stays_as_it_is_when_they_are_confirmed(
    open_client,
) -> None:
    bridge = late(tools=1)
    bridge.known.append(bridged("late", "think"))
    async with open_client(bridge=bridge) as client:
        first = (await client.list_tools()).tools
        bridge.arrive("late")
        later = (await client.list_tools()).tools

    assert bridge.waited_for == []
    assert (first[0].description or "").splitlines()[-1] == "mcp__late__think(...)"
    assert [tool.name for tool in first] == ["execute_program", "search_tools"]
    assert later[0].description == first[0].description
    assert [tool.name for tool in later] == ["execute_program"]


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_comes_back_knows_a_slow_servers_tools_at_once(tmp_path, monkeypatch, mode) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gate = tmp_path / "gate"
    config = f"servers: [{{name: slow, command: '{sys.executable}', args: ['{GATED}', '{gate}']}}]"
    config = parse_config(f"{config}\nledger: {{where: memory}}\n")

    gate.touch()
    mcp_server = create_mcp_server(config)
    async with mcp_server, Client(mcp_server.server, mode=mode) as client:
        await run(client, "print(await mcp__slow__echo(text='first'))")
    gate.unlink()
    mcp_server = create_mcp_server(config)
    async with mcp_server, Client(mcp_server.server, mode=mode) as client:
        described = (await client.list_tools()).tools[0].description or ""
        call = asyncio.create_task(run(client, "print(await mcp__slow__echo(text='second'))"))
        gate.touch()
        result = await call
        await until(lambda: not any(one.state == "connecting" for one in mcp_server._offer._statuses()))

    assert "\nmcp__slow__echo(" in described
    assert texts(result) == ["[Script executed successfully]\nsecond\n"]
