"""What clients keep of a description: nothing that the model needs is ever cut."""

from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import pytest

from tests.interfaces.mcp.conftest import ERAS, FakeBridge, Server, bridged
from toolfold.interfaces.mcp.offered_tools import CAPS, SAFE_CHARACTERS, DescriptionWriter, description_limit
from toolfold.interfaces.mcp.prompt_texts import CONTRACT, INSTRUCTIONS
from toolfold.tools.tool import Tool


@dataclass
class Past:
    """What programs have shown of tools."""

    uses: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Any] = field(default_factory=dict)

    def schemas(self, specs: object) -> dict[str, Any]:
        return self.shapes


def units(text: str | None) -> int:
    """As JavaScript counts characters."""
    return len((text or "").encode("utf-16-le")) // 2


def with_schemas(server: str, name: str) -> Tool:
    lines: dict[str, Any] = {"type": "number", "description": "If provided, returns only so many lines of the file"}
    path = {"type": "string", "description": "Where the file is, inside an allowed directory"}
    reply = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
    given = {"type": "object", "properties": {"path": path, "head": lines, "tail": lines}, "required": ["path"]}
    return bridged(
        server, name, description=f"Read the complete contents of a file as {name}. " * 5, input_schema=given,
        output_schema=reply,
    )  # fmt: skip


def like_server_filesystem() -> FakeBridge:
    return FakeBridge({"files": Server("files", tools=14)}, [with_schemas("files", f"tool_{at}") for at in range(14)])


def like_eight_servers() -> FakeBridge:
    names = [f"server-{at}" for at in range(8)]
    tools = [with_schemas(name, f"do_one_thing_{at}") for name in names for at in range(13)]
    return FakeBridge({name: Server(name, tools=13) for name in names}, tools)


def signatures(described: str | None, prefix: str = "mcp__") -> list[str]:
    return [
        line.partition("(")[0] for line in (described or "").splitlines() if line.startswith(prefix) and "(" in line
    ]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("bridge", [like_server_filesystem, like_eight_servers])
@pytest.mark.parametrize("cap", CAPS, ids=lambda cap: f"{cap.client} {cap.first}")
async def test_no_client_in_the_table_ever_cuts_a_text(open_client, mode, bridge, cap) -> None:
    version = ".".join(map(str, cap.first))
    client_info = types.Implementation(name=cap.client, version=version)
    async with open_client(bridge=bridge(), mode=mode, client_info=client_info) as client:
        tools = (await client.list_tools()).tools
        told = client.instructions if hasattr(client, "instructions") else INSTRUCTIONS

    assert description_limit(cap.client, version) == cap.characters
    assert [tool.name for tool in tools if units(tool.description) > cap.characters] == []
    assert units(told) <= cap.characters


@pytest.mark.parametrize(
    ("client", "version", "kept"),
    [
        ("claude-code", "2.1.84", 2_048),
        ("claude-code", "2.1.234", 2_048),
        ("claude-code", "2.1.235", 4_096),
        ("claude-code", "3.0.0 (Claude Code)", 4_096),
        ("claude-code", "", SAFE_CHARACTERS),
        ("somebody", "1.0", SAFE_CHARACTERS),
    ],
)
def test_what_a_client_keeps_is_known_by_its_name_and_version(client, version, kept) -> None:
    assert description_limit(client, version) == kept


async def test_fourteen_tools_with_long_words_all_have_their_signature(open_client) -> None:
    client_info = types.Implementation(name="claude-code", version="2.1.325")
    async with open_client(bridge=like_server_filesystem(), client_info=client_info) as client:
        tools = (await client.list_tools()).tools

    assert [tool.name for tool in tools] == ["execute_program"]
    assert signatures(tools[0].description) == [f"mcp__files__tool_{at}" for at in range(14)]
    assert (tools[0].description or "").count(" -> {content: str}\n") == 14


async def test_a_config_tells_of_a_client_that_shows_more_or_less(open_client) -> None:
    shown = {}
    for characters in (1_500, 40_000):
        describing = DescriptionWriter(max_characters=characters)
        async with open_client(bridge=like_eight_servers(), describing=describing) as client:
            shown[characters] = (await client.list_tools()).tools

    assert [len(tools) for tools in shown.values()] == [2, 1]
    assert units(shown[1_500][0].description) <= 1_500
    assert len(signatures(shown[40_000][0].description)) == 104


@pytest.mark.parametrize("tools", [60, 300, 5000])
async def test_where_not_even_the_names_fit_nothing_is_cut_and_the_rest_is_counted(open_client, tools) -> None:
    many = [with_schemas("crm", f"read_an_entry_of_the_large_table_number_{at:04}") for at in range(tools)]
    async with open_client(bridge=FakeBridge({"crm": Server("crm", tools=tools)}, many)) as client:
        listed = (await client.list_tools()).tools

    described = listed[0].description or ""
    left_out = tools - described.count("read_an_entry_of_the_large_table_number_")
    assert units(described) <= SAFE_CHARACTERS
    assert described.endswith(f", … {left_out} more}}")
    assert [tool.name for tool in listed] == ["execute_program", "search_tools"]


async def test_many_tools_cost_no_more_than_an_overview_that_names_some_of_each_server(open_client) -> None:
    async with open_client(bridge=like_eight_servers()) as client:
        described = (await client.list_tools()).tools[0].description or ""

    families = [line.partition("{")[0] for line in described.splitlines() if line.startswith("mcp__")]
    assert families == [f"mcp__server_{at}__" for at in range(8)]
    assert signatures(described) == []
    assert units(described) <= 2_100


async def test_tools_that_programs_used_before_come_first_and_keep_their_signature(open_client) -> None:
    async def history() -> Past:
        return Past(uses={"mcp__server_7__do_one_thing_12": 3, "mcp__server_5__do_one_thing_0": 1})

    async with open_client(bridge=like_eight_servers(), describing=DescriptionWriter(history=history)) as client:
        described = (await client.list_tools()).tools[0].description or ""

    assert signatures(described) == ["mcp__server_7__do_one_thing_12", "mcp__server_5__do_one_thing_0"]


async def test_the_order_stays_for_a_client_whatever_its_programs_call(open_client) -> None:
    known = [Past(uses={"mcp__files__tool_9": 1}), Past(uses={"mcp__files__tool_3": 1})]

    async def history() -> Past:
        return known.pop(0)

    async with open_client(bridge=like_server_filesystem(), describing=DescriptionWriter(history=history)) as client:
        first = (await client.list_tools()).tools[0].description
        again = (await client.list_tools()).tools[0].description

    assert signatures(first)[0] == "mcp__files__tool_9"
    assert again == first


async def test_shapes_that_were_learned_are_in_the_description(open_client) -> None:
    async def history() -> Past:
        shape = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
        return Past(shapes={"mcp__git__log": shape})

    bridge = FakeBridge({"git": Server("git", tools=1)}, [bridged("git", "log")])
    async with open_client(bridge=bridge, describing=DescriptionWriter(history=history)) as client:
        described = (await client.list_tools()).tools[0].description or ""

    assert described.splitlines()[-1] == "mcp__git__log(...) -> {id: int}  # as seen"


async def test_a_history_that_cannot_be_read_costs_only_the_order(open_client, caplog) -> None:
    async def history() -> Past:
        raise OSError("disk is gone")

    async with open_client(bridge=like_server_filesystem(), describing=DescriptionWriter(history=history)) as client:
        described = (await client.list_tools()).tools[0].description

    assert signatures(described)[0] == "mcp__files__tool_0"
    assert [one.getMessage() for one in caplog.records] == ["earlier programs could not be read: disk is gone"]


async def test_the_contracts_description_is_the_specifications_word_for_word(open_client) -> None:
    describing = DescriptionWriter(is_contract=True)
    async with open_client(bridge=like_server_filesystem(), describing=describing) as client:
        tools = (await client.list_tools()).tools

    code = tools[0].input_schema["properties"]["code"]["description"]
    assert [tool.name for tool in tools] == ["execute_program", "search_tools"]
    assert tools[0].description == CONTRACT
    assert CONTRACT.startswith("Execute a Python program with access to MCP tools as async functions. Tool calls")
    assert code.startswith("Python code to execute. MCP tools are available as async functions using their namespaced")


@pytest.mark.parametrize("name", ["a-server-with-a-rather-long-name-{}", "🦆🦆🦆🦆🦆🦆🦆🦆🦆🦆{}"])
@pytest.mark.parametrize("state", ["failed", "ready"])
async def test_any_number_of_servers_of_any_name_leaves_room_for_tools(open_client, name, state) -> None:
    servers = {name.format(at): Server(name.format(at), state, tools=1) for at in range(200)}
    async with open_client(bridge=FakeBridge(servers, [bridged("files", "read")])) as client:
        listed = (await client.list_tools()).tools

    described = listed[0].description or ""
    assert units(described) <= SAFE_CHARACTERS
    assert (", and " in described) is (state == "failed")
    assert described.splitlines()[-1] == "mcp__files__read(...)"


def test_the_instructions_fit_what_every_version_keeps() -> None:
    assert units(INSTRUCTIONS) <= min(cap.characters for cap in CAPS)
