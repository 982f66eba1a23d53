"""Grants of the parent's tools to a program.

The child does not know the parent's tools unless the parent lists them. Then the program is granted
those. Else it is granted what its text names, so that this is checked and can be imported, and one tool
that stands for every other name: the parent's executor knows best.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pydantic import BaseModel, Field

from toolfold.models import Json, Limits, ToolSpec
from toolfold.program.known_names import ANY_TOOL, mentioned_names
from toolfold.tools.arguments import bound_schema
from toolfold.tools.tool import unique_names

CALL_TOOL: Final = "call_tool"
"""`call_tool("any name", **arguments)`: for names that only the running program knows."""
_NAME_ARGUMENT: Final = "tool_name"
_CALL_TOOL: Final = ToolSpec(
    name=CALL_TOOL,
    python_name=CALL_TOOL,
    description="Calls a tool by its name.",
    input_schema={
        "type": "object", "properties": {_NAME_ARGUMENT: {"type": "string"}}, "required": [_NAME_ARGUMENT],
        "additionalProperties": True,
    },
    source="parent",
)  # fmt: skip
_ANY_TOOL: Final = ToolSpec(
    name=ANY_TOOL,
    python_name=ANY_TOOL,
    description="Stands for every tool that the text of a program does not name.",
    # The arguments lie deeper: a tool may have a parameter of any name.
    input_schema={
        "type": "object",
        "properties": {_NAME_ARGUMENT: {"type": "string"}, "arguments": {"type": "object"}},
        "required": [_NAME_ARGUMENT, "arguments"],
    },
    source="parent",
)
_LIMITS: Final = Limits()


class ListedTool(BaseModel):
    """A tool as gem's `get_available_tools` describes it."""

    name: str
    description: str = ""
    parameters: dict[str, Json] = Field(default_factory=lambda: {"type": "object"})
    output_schema: dict[str, Json] | None = None
    """Of type `string`: the observation is text even where it looks like JSON."""


def grant_tools(
    text: str, listed: Sequence[str | ListedTool] | None, reserved_names: Collection[str], limits: Limits = _LIMITS
) -> tuple[ToolSpec, ...]:
    """The parent's tools that a program may call.

    `listed` is what the parent offers, if it says so; `reserved_names` are identifiers of tools that the
    child has itself, and keeps.
    """
    if listed is None:
        return grant_by_name(mentioned_names(text, limits), reserved_names)
    tools = {tool.name: tool for tool in (ListedTool(name=tool) if isinstance(tool, str) else tool for tool in listed)}
    identifiers = unique_names(tools)
    return tuple(
        _spec(tool, identifiers[name]) for name, tool in tools.items() if identifiers[name] not in reserved_names
    )


def grant_by_name(names: Collection[str], reserved_names: Collection[str]) -> tuple[ToolSpec, ...]:
    """The tools that a program's text names, and one for every other name."""
    own = sorted(set(names) - set(reserved_names))
    return (*(_CALL_TOOL if name == CALL_TOOL else _spec(ListedTool(name=name), name) for name in own), _ANY_TOOL)


def _spec(tool: ListedTool, identifier: str) -> ToolSpec:
    return ToolSpec(
        name=tool.name, python_name=identifier, description=tool.description,
        input_schema=bound_schema(tool.parameters, tool.name),
        output_schema=bound_schema(tool.output_schema, tool.name) if tool.output_schema is not None else None,
        source="parent",
    )  # fmt: skip


def resolve_call(spec: ToolSpec, arguments: dict[str, Json]) -> tuple[str, dict[str, Json]]:
    """The tool and the arguments that a call is for: two of ours name another."""
    if spec is _ANY_TOOL:
        return str(arguments[_NAME_ARGUMENT]), arguments["arguments"]
    if spec is not _CALL_TOOL:
        return spec.name, arguments
    rest = {key: value for key, value in arguments.items() if key != _NAME_ARGUMENT}
    return str(arguments.get(_NAME_ARGUMENT, "")), rest
