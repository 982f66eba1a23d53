"""What a client is told: one tool, its description, a second one where signatures do not fit, changes."""

import mcp_types as types
import pytest
from mcp.client.subscriptions import ToolsListChanged

from tests.interfaces.mcp.conftest import ERAS, FakeBridge, Server, bridged, run, texts, until
from toolfold.interfaces.config_runtime import mentions
from toolfold.interfaces.mcp.prompt_texts import DESCRIPTION


@pytest.mark.parametrize("mode", ERAS)
async def test_one_tool_is_listed_with_its_description_and_what_claude_code_reads(open_client, mode) -> None:
    bridge = FakeBridge({"git": Server("git", tools=1)}, [bridged("git", "log", description="Commits.")])
    async with open_client(bridge=bridge, mode=mode) as client:
        tools = (await client.list_tools()).tools

    assert [tool.name for tool in tools] == ["execute_program"]
    assert tools[0].description is not None
    assert tools[0].description.startswith(DESCRIPTION)
    assert tools[0].description.endswith("\nmcp__git__log(...)\n  Commits.")
    assert tools[0].meta == {"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": 500_000}
    assert tools[0].output_schema is None
    assert sorted(tools[0].input_schema["properties"]) == ["code", "session", "timeout_seconds"]


async def test_signatures_that_do_not_fit_bring_a_tool_that_finds_them(open_client) -> None:
    many = [bridged("crm", f"get_{noun}_{at}", description=f"Read a {noun}.") for at in range(100) for noun in "ab"]
    bridge = FakeBridge({"crm": Server("crm", tools=200)}, [*many, bridged("crm", "send_invoice")])
    async with open_client(bridge=bridge) as client:
        tools = (await client.list_tools()).tools
        found = await client.call_tool("search_tools", {"query": "invoice", "detail": "name"})
        inside = await run(client, "print([one['name'] for one in await search_tools('invoice')])")

    assert [tool.name for tool in tools] == ["execute_program", "search_tools"]
    assert texts(found) == ["mcp__crm__send_invoice: "]
    assert texts(inside) == ["[Script executed successfully]\n['mcp__crm__send_invoice']\n"]


async def test_a_client_of_the_older_era_is_told_when_the_tools_change(open_client) -> None:
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(type(message))

    bridge = FakeBridge({"slow": Server("slow", "failed")})
    async with open_client(bridge=bridge, mode="legacy", message_handler=listen) as client:
        await client.list_tools()
        bridge.arrive("slow", bridged("slow", "think"))
        await until(lambda: types.ToolListChangedNotification in heard)
        result = await run(client, "print(await mcp__slow__think())")

    assert heard == [types.ToolListChangedNotification]
    assert texts(result) == ["[Script executed successfully]\nNone\n"]


async def test_a_client_of_the_newer_era_that_listens_is_told_when_the_tools_change(open_client) -> None:
    bridge = FakeBridge({"slow": Server("slow", "failed")})
    async with open_client(bridge=bridge) as client:
        await client.list_tools()
        async with client.listen(tools_list_changed=True) as events:
            bridge.arrive("slow", bridged("slow", "think"))
            event = await anext(aiter(events))

    assert event == ToolsListChanged()


async def test_a_program_waits_for_the_servers_that_it_mentions_and_for_no_other(open_client) -> None:
    bridge = FakeBridge({"ready": Server("ready")}, [bridged("ready", "go")])
    async with open_client(bridge=bridge) as client:
        await client.list_tools()
        bridge.servers |= {"late-one": Server("late-one", "connecting"), "other": Server("other", "connecting")}
        await run(client, "await mcp__ready__go()")
        await run(client, "print(await mcp__late_one__go())")

    assert bridge.waited_for == [["late-one"]]


@pytest.mark.parametrize(
    ("code", "is_mention"),
    [
        ("await mcp__late_one__go()", True),
        ("from tools.late_one import go", True),
        ("from tools import a, late_one", True),
        ("await tools.late_one.go()", True),
        ("await read_resource(server='late-one', uri='x')", True),
        ("late_one = 1", False),
        ("await mcp__late__one__go()", False),
    ],
)
def test_a_server_is_mentioned_by_a_tool_by_its_module_or_as_an_argument(code, is_mention) -> None:
    assert mentions(code, "late-one") is is_mention


async def test_a_count_that_changes_is_told_also_where_signatures_are_left_out(open_client) -> None:
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(type(message))

    many = [bridged("crm", f"get_{at}") for at in range(200)]
    bridge = FakeBridge({"crm": Server("crm", tools=200)}, many)
    async with open_client(bridge=bridge, mode="legacy", message_handler=listen) as client:
        await client.list_tools()
        bridge.arrive("crm", bridged("crm", "one_more"))
        await until(lambda: types.ToolListChangedNotification in heard)
        described = (await client.list_tools()).tools[0].description or ""

    assert described.endswith(f", … {201 - described.count('get_')} more}}")


async def test_a_tool_of_the_host_hides_a_bridged_one_of_the_same_name(open_client) -> None:
    def mcp__git__log() -> str:
        return "ours"

    bridge = FakeBridge({"git": Server("git")}, [bridged("git", "log"), bridged("git", "show")])
    async with open_client(mcp__git__log, bridge=bridge) as client:
        result = await run(client, "print(await mcp__git__log(), await mcp__git__show())")

    assert texts(result) == ["[Script executed successfully]\nours None\n"]


async def test_a_server_that_failed_is_named_beside_the_problem(open_client) -> None:
    bridge = FakeBridge({"down": Server("down", "failed", detail="connection refused")})
    async with open_client(bridge=bridge) as client:
        result = await run(client, "await mcp__down__go()")

    assert texts(result)[1:] == ["server 'down' is not connected: connection refused"]


async def test_the_bridge_is_left_with_the_interface(open_client) -> None:
    bridge = FakeBridge({"git": Server("git")})
    async with open_client(bridge=bridge) as client:
        await client.list_tools()

    assert bridge.has_left
