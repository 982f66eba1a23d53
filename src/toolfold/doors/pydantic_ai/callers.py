"""Who may call a tool of Pydantic AI, and what a program may know of it: `ToolDefinition` in, `ToolSpec` out.

The mark is set where a tool is registered and travels in `ToolDefinition.metadata`, so it survives
every wrapper (prefixed, renamed, filtered, combined) and never reaches the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast, get_args

from pydantic_ai import ToolDefinition

from toolfold.errors import UsageError
from toolfold.models import AllowedCallers, Json, ToolSpec
from toolfold.tools.names import python_name

MARK: Final = "allowed_callers"
"""The key in a tool's metadata."""
FROM_CONFIG: Final = "toolfold"
"""The key in the metadata of a tool that `ConfigToolset` has: the module that programs may import it from."""

_for_code: ContextVar[bool] = ContextVar("toolfold_for_code", default=False)
_beside: ContextVar[bool] = ContextVar("toolfold_beside", default=False)


def callers_of(definition: ToolDefinition, unset: AllowedCallers = "direct") -> AllowedCallers:
    """Who may call this tool; `unset` where nobody said.

    Raises:
        UsageError: the mark is none of the three words.
    """
    mark = (definition.metadata or {}).get(MARK)
    return unset if mark is None else checked(mark, definition.name)


def checked(mark: object, tool: str) -> AllowedCallers:
    """The mark itself, if it is one."""
    if mark not in get_args(AllowedCallers):
        raise UsageError(f"allowed_callers of {tool!r} is {mark!r}; it must be 'direct', 'code' or 'both'")
    # mypy does not narrow by `in`.
    return cast("AllowedCallers", mark)


@contextmanager
def listing_for_code() -> Iterator[None]:
    """Toolsets that are asked for their tools in here also give those that only programs may call."""
    token = _for_code.set(True)
    try:
        yield
    finally:
        _for_code.reset(token)


@contextmanager
def listing_beside() -> Iterator[None]:
    """What an agent has beside its code modes: these give nothing in here."""
    token = _beside.set(True)
    try:
        yield
    finally:
        _beside.reset(token)


def is_listing_beside() -> bool:
    """Whether a code mode asks for what is beside it."""
    return _beside.get()


def is_listing_for_code() -> bool:
    """Whether a `CodeModeToolset` or the like is asking."""
    return _for_code.get()


def spec_of(definition: ToolDefinition) -> ToolSpec:
    """What a program may know of a tool."""
    hints = _section(definition.metadata, "annotations")
    module = _section(definition.metadata, FROM_CONFIG)
    return ToolSpec(
        name=definition.name,
        python_name=python_name(definition.name),
        domain=module.get("domain", ""),
        short_name=module.get("short_name", ""),
        description=definition.description or "",
        input_schema=definition.parameters_json_schema,
        output_schema=_returned(definition),
        read_only=hints.get("readOnlyHint") is True,
        idempotent=hints.get("idempotentHint") is True,
        destructive=hints.get("destructiveHint") is True,
        allowed_callers="code",
        source="pydantic-ai",
    )


def _returned(definition: ToolDefinition) -> Mapping[str, Json] | None:
    """The schema of what a call gives; an MCP tool's sole `result` comes unwrapped, whatever its schema says."""
    # `{}` is what a function without an annotation has: it says nothing.
    schema = definition.return_schema or None
    metadata = definition.metadata or {}
    is_from_mcp = "annotations" in metadata and FROM_CONFIG not in metadata
    if schema is None or not is_from_mcp or list(schema.get("properties", {})) != ["result"]:
        return schema
    inner = schema["properties"]["result"]
    return {**inner, "$defs": schema["$defs"]} if "$defs" in schema else inner


# Any: metadata is whatever its author put there.
def _section(metadata: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    """One part of it: an MCP server's own words on what its tool does, or ours."""
    found = (metadata or {}).get(key)
    return found if isinstance(found, Mapping) else {}
