"""Bridged tools: what a server lists, as a `Tool` that calls it there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.shared.dispatcher import ProgressFnT

from toolfold.models import ToolSpec, Value
from toolfold.sources.mcp.bridged_names import Names
from toolfold.sources.mcp.connection import Connection
from toolfold.sources.mcp.keeper import Keeper
from toolfold.sources.mcp.outer import Outer
from toolfold.sources.mcp.values import output_schema, value_reader
from toolfold.tools.arguments import bounded
from toolfold.tools.tool import CallContext, Tool


def bridged_tool(tool: types.Tool, names: Names, keeper: Keeper, outer: Outer | None) -> Tool:
    """One tool of one server."""
    tool = _bounded(tool, names.name)
    read = value_reader(tool, names.name)
    spec = _spec(tool, names, keeper)
    may_repeat = spec.read_only or spec.idempotent

    async def call_within(arguments: Mapping[str, Any], context: CallContext) -> Value:
        on_progress = _progress(keeper, names.name, context, outer)

        async def work(connection: Connection) -> types.CallToolResult:
            return await connection.call_tool(
                tool.name, arguments, execution_id=context.execution_id, on_progress=on_progress
            )

        return read(await keeper.call(work, may_repeat=may_repeat))

    async def call(arguments: Mapping[str, Any]) -> Value:
        return await call_within(arguments, CallContext())

    # The keeper has tried again where that is safe.
    return Tool(spec=spec, call=call, call_within=call_within, retry="never")


def _bounded(tool: types.Tool, name: str) -> types.Tool:
    schemas = {"input_schema": tool.input_schema, "output_schema": tool.output_schema}
    return tool.model_copy(update={key: bounded(one, name) for key, one in schemas.items() if one is not None})


def _spec(tool: types.Tool, names: Names, keeper: Keeper) -> ToolSpec:
    hints = tool.annotations or types.ToolAnnotations()
    return ToolSpec(
        name=names.name,
        python_name=names.python_name,
        aliases=names.aliases,
        domain=names.domain,
        short_name=names.short_name,
        description=tool.description or hints.title or tool.title or "",
        input_schema=tool.input_schema,
        output_schema=output_schema(tool),
        read_only=bool(hints.read_only_hint),
        idempotent=bool(hints.idempotent_hint),
        destructive=bool(hints.destructive_hint) and not hints.read_only_hint,
        timeout_seconds=keeper.server.call_timeout_seconds,
        source=f"mcp:{keeper.server.name}",
    )


def _progress(keeper: Keeper, tool: str, context: CallContext, outer: Outer | None) -> ProgressFnT | None:
    if outer is None:
        return None

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        outer.progress(
            server=keeper.server.name,
            tool=tool,
            execution_id=context.execution_id,
            progress=progress,
            total=total,
            message=message or "",
        )

    return tell
