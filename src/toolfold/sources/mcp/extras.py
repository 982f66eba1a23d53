"""Resources and prompts as tools: three functions for all servers that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types

from toolfold.errors import ToolFailed
from toolfold.models import Json, ToolSpec, Value
from toolfold.sources.mcp.connection import Connection
from toolfold.sources.mcp.keeper import Keeper
from toolfold.sources.mcp.values import content_value, resource_value
from toolfold.tools.tool import CallContext, Tool


def extra_tools(keepers: Sequence[Keeper]) -> tuple[Tool, ...]:
    """`read_resource`, `list_resources` and `get_prompt`, each if a server can serve it."""
    with_resources = {one.server.name: one for one in keepers if one.capabilities.resources is not None}
    with_prompts = {one.server.name: one for one in keepers if one.capabilities.prompts is not None}
    tools: list[Tool] = []
    if with_resources:
        tools += [_list_resources(with_resources), _read_resource(with_resources)]
    if with_prompts:
        tools.append(_get_prompt(with_prompts))
    return tuple(tools)


def _list_resources(keepers: Mapping[str, Keeper]) -> Tool:
    async def listed(arguments: Mapping[str, Any], _: CallContext) -> Value:
        found = await keepers[arguments["server"]].call(Connection.list_resources, may_repeat=True)
        return [
            {"uri": str(one.uri), "name": one.name, "description": one.description or "", "mime": one.mime_type or ""}
            for one in found
        ]

    fields = {name: {"type": "string"} for name in ("uri", "name", "description", "mime")}
    output = {"type": "array", "items": {"type": "object", "properties": fields, "required": list(fields)}}
    return _tool("list_resources", "What one server offers to read.", {}, keepers, listed, output)


def _read_resource(keepers: Mapping[str, Keeper]) -> Tool:
    async def read(arguments: Mapping[str, Any], context: CallContext) -> Value:
        async def work(connection: Connection) -> types.ReadResourceResult:
            return await connection.read_resource(arguments["uri"], execution_id=context.execution_id)

        found = await keepers[arguments["server"]].call(work, may_repeat=True)
        values = [resource_value(one) for one in found.contents]
        return values[0] if len(values) == 1 else values

    words = "A resource of one server: text, parsed if it is JSON, or an object with `.mime` and `.data`."
    return _tool("read_resource", words, {"uri": {"type": "string"}}, keepers, read, None)


def _get_prompt(keepers: Mapping[str, Keeper]) -> Tool:
    async def get(arguments: Mapping[str, Any], context: CallContext) -> Value:
        wanted = {key: str(value) for key, value in (arguments.get("arguments") or {}).items()}

        async def work(connection: Connection) -> types.GetPromptResult:
            return await connection.get_prompt(arguments["name"], wanted, execution_id=context.execution_id)

        keeper = keepers[arguments["server"]]
        try:
            found = await keeper.call(work, may_repeat=True)
        except ToolFailed as error:
            names = ", ".join(one.name for one in await keeper.call(Connection.list_prompts, may_repeat=True))
            raise ToolFailed(f"{error}; the prompts of {keeper.server.name!r} are: {names}") from error
        return [{"role": one.role, "content": content_value([one.content], parses=False)} for one in found.messages]

    parameters = {"name": {"type": "string"}, "arguments": {"type": "object"}}
    words = "The messages of one server's prompt, each with `role` and `content`."
    return _tool("get_prompt", words, parameters, keepers, get, None, optional=("arguments",))


# Any: each function takes what its schema lets through.
def _tool(
    name: str,
    description: str,
    parameters: Mapping[str, Json],
    keepers: Mapping[str, Keeper],
    call_within: Any,
    output: Mapping[str, Json] | None,
    optional: Sequence[str] = (),
) -> Tool:
    properties = {"server": {"type": "string", "enum": sorted(keepers)}, **parameters}
    schema = {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }
    spec = ToolSpec(
        name=name, python_name=name, description=description, input_schema=schema, output_schema=output,
        read_only=True, idempotent=True, source="mcp",
    )  # fmt: skip

    async def call(arguments: Mapping[str, Any]) -> Value:
        return await call_within(arguments, CallContext())

    return Tool(spec=spec, call=call, call_within=call_within, retry="never")
