"""What clients keep of a description: nothing that the model needs is ever cut."""

from typing import Any

import mcp_types as types
import pytest

from tests.doors.mcp.conftest import ERAS, FakeBridge, Server, bridged
from toolfold.doors.mcp.texts import instructions
from toolfold.tools.tool import Tool

CLAUDE_CODE = 4_096
OLDER_CLAUDE_CODE = 2_048


def units(text: str | None) -> int:
    """As JavaScript counts characters."""
    return len((text or "").encode("utf-16-le")) // 2


def like_server_filesystem() -> FakeBridge:
    return FakeBridge({"files": Server("files", tools=14)}, [with_schemas("files", f"tool_{at}") for at in range(14)])


def with_schemas(server: str, name: str) -> Tool:
    lines: dict[str, Any] = {"type": "number", "description": "If provided, returns only the first lines of the file"}
    path = {"type": "string", "description": "Where the file is, inside an allowed directory"}
    reply = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
    given = {"type": "object", "properties": {"path": path, "head": lines, "tail": lines}, "required": ["path"]}
    return bridged(
        server, name, description="Read the complete contents of a file as text. " * 5, input_schema=given,
        output_schema=reply,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("version", "kept"), [("2.1.325", CLAUDE_CODE), ("2.1.200", OLDER_CLAUDE_CODE)])
async def test_fourteen_tools_are_all_named_with_the_signatures_that_fit_and_a_search(
    open_door, mode, version, kept
) -> None:
    client_info = types.Implementation(name="claude-code", version=version)
    async with open_door(bridge=like_server_filesystem(), mode=mode, client_info=client_info) as client:
        tools = (await client.list_tools()).tools

    described = tools[0].description or ""
    named = [at for at in range(14) if f"mcp__files__tool_{at}" in described]
    written = [at for at in range(14) if f"async def mcp__files__tool_{at}(" in described]
    assert [tool.name for tool in tools] == ["execute_program", "search_tools"]
    assert units(described) <= kept
    assert named == list(range(14))
    assert 0 < len(written) < 14
    assert "`search_tools`" in described.splitlines()[-1]


async def test_tools_that_fit_are_told_whole_and_need_no_search(open_door) -> None:
    bridge = FakeBridge({"files": Server("files", tools=5)}, [with_schemas("files", f"tool_{at}") for at in range(5)])
    async with open_door(bridge=bridge) as client:
        tools = (await client.list_tools()).tools

    described = tools[0].description or ""
    assert [tool.name for tool in tools] == ["execute_program"]
    assert [at for at in range(5) if f"async def mcp__files__tool_{at}(" in described] == list(range(5))
    assert units(described) <= CLAUDE_CODE


@pytest.mark.parametrize("tools", [60, 300, 5000])
async def test_where_not_even_the_names_fit_nothing_is_cut_and_the_rest_is_counted(open_door, tools) -> None:
    many = [with_schemas("crm", f"read_an_entry_of_the_large_table_number_{at:04}") for at in range(tools)]
    async with open_door(bridge=FakeBridge({"crm": Server("crm", tools=tools)}, many)) as client:
        listed = (await client.list_tools()).tools

    described = listed[0].description or ""
    left_out = tools - described.count("mcp__crm__read_an_entry_of_the_large_table_number_")
    assert units(described) <= CLAUDE_CODE
    assert f"# and {left_out} more;" in described
    assert [tool.name for tool in listed] == ["execute_program", "search_tools"]


@pytest.mark.parametrize("name", ["a-server-with-a-rather-long-name-{}", "🦆🦆🦆🦆🦆🦆🦆🦆🦆🦆{}"])
async def test_any_number_of_servers_of_any_name_leaves_room_for_tools(open_door, name) -> None:
    servers = {name.format(at): Server(name.format(at), tools=1) for at in range(200)}
    async with open_door(bridge=FakeBridge(servers, [bridged("files", "read")])) as client:
        listed = (await client.list_tools()).tools

    described = listed[0].description or ""
    shown = described.count(name.format(""))
    assert units(described) <= CLAUDE_CODE
    assert f"- and {200 - shown} more servers\n" in described
    assert "async def mcp__files__read(" in described


@pytest.mark.parametrize("name", ["server-{}", "🦆🦆🦆🦆🦆🦆🦆🦆🦆🦆{}", "s" * 3000])
def test_the_instructions_fit_what_every_version_keeps(name) -> None:
    text = instructions([name.format(at) for at in range(200)])

    assert units(text) <= OLDER_CLAUDE_CODE
    assert "do not repeat those that change something." in text


def test_instructions_name_the_servers_where_there_is_room() -> None:
    assert instructions(["files", "git"]).endswith("\n\nBridged MCP servers: files, git")
