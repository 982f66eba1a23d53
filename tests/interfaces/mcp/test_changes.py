"""Changes are sent where they are declared: the list of tools, the list of files, in both eras and over HTTP."""

import asyncio
import sys
from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourcesListChanged

from tests.interfaces.mcp.conftest import ERAS, FakeBridge, Server, bridged, run, texts, until
from tests.interfaces.mcp.test_http import served
from toolfold.config import parse_config
from toolfold.interfaces.mcp.server_setup import create_mcp_server

ROOTS_SERVER = Path(__file__).parents[2] / "sources" / "mcp" / "roots_server.py"
MAKE_A_FILE = "open('a.txt', 'w').write('a')"


async def test_a_client_of_the_newer_era_that_listens_is_told_of_a_file(open_client) -> None:
    async with open_client() as client:
        async with client.listen(resources_list_changed=True) as events:
            await run(client, MAKE_A_FILE)
            event = await anext(aiter(events))
        listed = [one.name for one in (await client.list_resources()).resources]

    assert event == ResourcesListChanged()
    assert listed == ["a.txt"]


async def test_a_client_of_the_older_era_is_told_of_a_file(open_client) -> None:
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(type(message))

    async with open_client(mode="legacy", message_handler=listen) as client:
        await run(client, "print(1)")
        await run(client, MAKE_A_FILE)
        await until(lambda: bool(heard))

    assert heard == [types.ResourceListChangedNotification]


@pytest.mark.parametrize("mode", ERAS)
async def test_what_is_sent_is_declared(open_client, mode) -> None:
    async with open_client(mode=mode) as client:
        able = client.session.server_capabilities

    assert able is not None
    assert able.tools == types.ToolsCapability(list_changed=True)
    assert able.resources is not None
    assert able.resources.list_changed is True


@pytest.mark.long
async def test_the_same_is_declared_over_http(tmp_path) -> None:
    with served(tmp_path) as address:
        async with Client(address, mode="legacy") as client:
            await run(client, "print(1)")
            able = client.session.server_capabilities

    assert able is not None
    assert able.tools == types.ToolsCapability(list_changed=True)
    assert able.resources == types.ResourcesCapability(list_changed=True, subscribe=False)


@pytest.mark.long
async def test_nobody_is_told_of_the_files_of_another_client(tmp_path) -> None:
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(message)

    with served(tmp_path) as address:
        async with Client(address, mode="legacy", message_handler=listen) as one, Client(address, mode="auto") as other:
            await run(one, "print(1)")
            async with other.listen(resources_list_changed=True) as events:
                await run(one, MAKE_A_FILE)
                await until(lambda: bool(heard))
                await run(other, MAKE_A_FILE)
                event = await anext(aiter(events))
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(aiter(events)), 0.2)

    assert [type(one) for one in heard] == [types.ResourceListChangedNotification]
    assert event == ResourcesListChanged()


# --- folders --------------------------------------------------------------------------------


async def folders(_: object) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///work")])


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("asks", ["in a call", "at the start"])
async def test_the_clients_folders_are_told_to_a_bridged_server_whenever_it_asks(
    tmp_path, monkeypatch, mode, asks
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = f"servers: [{{name: files, command: '{sys.executable}', args: ['{ROOTS_SERVER}', '{asks}']}}]"
    mcp_server = create_mcp_server(parse_config(f"{config}\nledger: {{where: memory}}\n"))
    async with mcp_server, Client(mcp_server.server, mode=mode, list_roots_callback=folders) as client:
        await client.list_tools()
        result = await run(client, "print(await mcp__files__allowed())\nprint(await mcp__files__allowed())")

    assert texts(result) == ["[Script executed successfully]\nfile:///work\nfile:///work\n"]


async def test_a_client_without_folders_is_not_asked_for_them(open_client) -> None:
    bridge = FakeBridge({"files": Server("files")})

    async def ask() -> str:
        assert bridge.outer is not None
        return f"{bridge.outer.has_roots} {list(await bridge.outer.roots())}"

    bridge.known.append(bridged("files", "ask", ask))
    async with open_client(bridge=bridge) as client:
        result = await run(client, "print(await mcp__files__ask())")

    assert texts(result) == ["[Script executed successfully]\nFalse []\n"]
