"""Tools that stand beside a code mode in one agent, as far as their marks make them tools of its programs."""

from __future__ import annotations

from pydantic_ai import AbstractToolset, RunContext, ToolsetTool, UserError
from pydantic_ai.tools import AgentDepsT

from toolfold.doors.pydantic_ai.callers import callers_of, listing_beside, listing_for_code


async def tools_beside(
    ctx: RunContext[AgentDepsT], own: AbstractToolset[AgentDepsT]
) -> dict[str, ToolsetTool[AgentDepsT]]:
    """Tools marked `code` or `both` in the agent's toolsets other than `own`; their calls go through `root_of`.

    Raises:
        UserError: one is marked `code`, and the model sees it all the same.
    """
    root = root_of(ctx)
    if root is None or not _has_others(root, own):
        return {}
    with listing_beside():
        shown = await root.get_tools(ctx)
        with listing_for_code():
            tools = await root.get_tools(ctx)
    for name, tool in shown.items():
        if callers_of(tool.tool_def) == "code":
            raise UserError(
                f"{name!r} is marked allowed_callers='code', but its toolset shows it to the model; "
                "put that toolset into the CodeModeToolset, or use toolfold.pydantic_ai.FunctionToolset"
            )
    return {name: tool for name, tool in tools.items() if callers_of(tool.tool_def) != "direct"}


def root_of(ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT] | None:
    """All toolsets of the agent's run as one."""
    return None if ctx.tool_manager is None else ctx.tool_manager.toolset


def _has_others(root: AbstractToolset[AgentDepsT], own: AbstractToolset[AgentDepsT]) -> bool:
    """Whether there is anything to list: each step would pay for it."""
    all_, ours = list[AbstractToolset[AgentDepsT]](), list[AbstractToolset[AgentDepsT]]()
    root.apply(all_.append)
    own.apply(ours.append)
    known = {id(one) for one in ours}
    # An agent always has a toolset for its own functions, mostly an empty one.
    return any(id(one) not in known and getattr(one, "tools", True) for one in all_)
