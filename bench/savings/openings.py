"""What each interface sends before the first word of a task: read from the interface itself, as its client reads it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp import Client
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from bench.savings.tokens import reply_text
from toolfold.frameworks import openai_tool
from toolfold.interfaces.mcp.offered_tools import DescriptionWriter, Offer
from toolfold.interfaces.mcp.server import McpServer
from toolfold.models import ToolSpec
from toolfold.pydantic_ai import CodeModeToolset
from toolfold.testing import scripted
from toolfold.tools.tool import Tool

SHOWS_ALL = 1_000_000
"""Characters: of a client that cuts nothing."""
NO_ROOM = 1
"""The same of one that shows nothing: all that the interface still says is its fixed text."""
MANY = (ToolSpec(name="tool", python_name="tool"),)
CLAUDE_CODE = types.Implementation(name="claude-code", version="2.1.325")


def direct(specs: Sequence[ToolSpec]) -> list[str]:
    """The JSON definitions of direct calls."""
    listed = [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in specs]
    return [reply_text(listed)]


async def mcp(specs: Sequence[ToolSpec], *, max_characters: int | None = None, is_contract: bool = False) -> list[str]:
    """Instructions and tools of the MCP interface, for a client that shows so much of a text, or for Claude Code."""
    runtime, _ = scripted()
    describing = DescriptionWriter(max_characters=max_characters, is_contract=is_contract)
    offer = Offer(runtime, local=[Tool(spec=spec, call=_never) for spec in specs], describing=describing)
    async with (
        McpServer(runtime, offer) as mcp_server,
        Client(mcp_server.server, mode="legacy", client_info=CLAUDE_CODE) as client,
    ):
        tools = (await client.list_tools()).tools
        told = client.instructions or ""
    listed = [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in tools]
    # Beside direct calls, what a search finds is already loaded.
    return [told, *map(reply_text, listed[:1] if is_contract else listed)]


async def framework(specs: Sequence[ToolSpec]) -> list[str]:
    """The one definition of `openai_tool`; that of the other frameworks has the same words."""
    runtime, _ = scripted(tools=[Tool(spec=spec, call=_never) for spec in specs])
    return [reply_text(openai_tool(runtime).chat_tools[0]["function"])]


async def pydantic_ai(specs: Sequence[ToolSpec]) -> list[str]:
    """The one definition of `CodeModeToolset`."""
    toolset: FunctionToolset[None] = FunctionToolset()
    mode = CodeModeToolset(toolset)
    description = mode.home.description(tuple(specs), None, "dense")
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    [tool] = (await mode.get_tools(context)).values()
    definition = replace(tool.tool_def, description=description)
    return [
        reply_text(
            {
                "name": definition.name,
                "description": definition.description,
                "input_schema": definition.parameters_json_schema,
            }
        )
    ]


# Any: no call is ever made.
async def _never(_: Any) -> None:
    raise AssertionError("an interface that is only read calls no tool")
