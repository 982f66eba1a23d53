"""One toolset as two: what the model calls directly, and what its programs call. No tool is offered twice one way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_ai import AbstractToolset, FilteredToolset, RunContext, ToolDefinition, ToolsetTool, WrapperToolset
from pydantic_ai.tools import AgentDepsT

from toolfold.doors.pydantic_ai.callers import MARK, callers_of, listing_for_code
from toolfold.doors.pydantic_ai.toolset import CodeModeToolset


# Any: the options are those of `CodeModeToolset`.
def split_by_caller(
    toolset: AbstractToolset[AgentDepsT], **options: Any
) -> tuple[AbstractToolset[AgentDepsT], CodeModeToolset[AgentDepsT]]:
    """The tools for direct calls and those for programs, for `Agent(toolsets=split_by_caller(toolset))`.

    A tool marked `both` is in both; one without a mark is for direct calls. `options` are those of
    `CodeModeToolset`.
    """
    return FilteredToolset(toolset, _is_direct), CodeModeToolset(_Marked(toolset), **options)


class _Marked(WrapperToolset[AgentDepsT]):
    """Tools for programs as such: `both` would offer them directly a second time."""

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        with listing_for_code():
            tools = await self.wrapped.get_tools(ctx)
        return {
            name: replace(
                tool, tool_def=replace(tool.tool_def, metadata={**(tool.tool_def.metadata or {}), MARK: "code"})
            )
            for name, tool in tools.items()
            if callers_of(tool.tool_def) != "direct"
        }


def _is_direct(_: RunContext[Any], definition: ToolDefinition) -> bool:
    return callers_of(definition) != "code"
