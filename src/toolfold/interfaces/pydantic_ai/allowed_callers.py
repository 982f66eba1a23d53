"""Allowed callers of Pydantic AI tools: the mark, `FunctionToolset`, and `ToolSpec`s from definitions.

The mark is set where a tool is registered and travels in `ToolDefinition.metadata`, so it survives
every wrapper (prefixed, renamed, filtered, combined) and never reaches the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, TypeVar, cast, get_args, overload

from pydantic_ai import FunctionToolset as PydanticFunctionToolset
from pydantic_ai import RunContext, ToolDefinition, ToolsetTool
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import SetMetadataToolset

from toolfold.errors import UsageError
from toolfold.models import AllowedCallers, Json, ToolSpec
from toolfold.tools.tool import python_name

MARK: Final = "allowed_callers"
FROM_CONFIG: Final = "toolfold"
"""The key in the metadata of a tool that `ConfigToolset` has: the module that programs may import it from."""


class _ContextFlag:
    def __init__(self, name: str) -> None:
        self._variable: ContextVar[bool] = ContextVar(name, default=False)

    def __bool__(self) -> bool:
        return self._variable.get()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        token = self._variable.set(True)
        try:
            yield
        finally:
            self._variable.reset(token)


listing_for_code: Final = _ContextFlag("toolfold_for_code")
"""Toolsets that are asked for their tools in it also list those that only programs may call."""
listing_siblings: Final = _ContextFlag("toolfold_beside")
"""Code modes that are asked for their tools in it list none, so that only their siblings remain."""


def callers_of(definition: ToolDefinition, unset: AllowedCallers = "direct") -> AllowedCallers:
    """Allowed callers of this tool, `unset` if it does not say; `UsageError` for an unknown word."""
    mark = (definition.metadata or {}).get(MARK)
    return unset if mark is None else check_mark(mark, definition.name)


def check_mark(mark: object, tool: str) -> AllowedCallers:
    if mark not in get_args(AllowedCallers):
        raise UsageError(f"allowed_callers of {tool!r} is {mark!r}; it must be 'direct', 'code' or 'both'")
    # mypy does not narrow by `in`.
    return cast("AllowedCallers", mark)


def with_mark(tool: ToolsetTool[AgentDepsT], mark: AllowedCallers) -> ToolsetTool[AgentDepsT]:
    metadata = {**(tool.tool_def.metadata or {}), MARK: mark}
    return replace(tool, tool_def=replace(tool.tool_def, metadata=metadata))


def spec_of(definition: ToolDefinition) -> ToolSpec:
    hints = _section(definition.metadata, "annotations")
    module = _section(definition.metadata, FROM_CONFIG)
    return ToolSpec(
        name=definition.name, python_name=python_name(definition.name), domain=module.get("domain", ""),
        short_name=module.get("short_name", ""), description=definition.description or "",
        input_schema=definition.parameters_json_schema, output_schema=_reply_schema(definition),
        read_only=hints.get("readOnlyHint") is True, idempotent=hints.get("idempotentHint") is True,
        destructive=hints.get("destructiveHint") is True, allowed_callers="code",
        # Its reply is a text, which runs where the program that calls it runs.
        source="program" if module.get("is_saved_program") is True else "pydantic-ai",
    )  # fmt: skip


def _reply_schema(definition: ToolDefinition) -> Mapping[str, Json] | None:
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
    section = (metadata or {}).get(key)
    return section if isinstance(section, Mapping) else {}


# ----------------------------------------------------------------------------------------------------
# `FunctionToolset` as Pydantic AI's, with a mark for who may call a tool, and one decorator for both kinds.

MARK_ON_FUNCTION: Final = "__toolfold_allowed_callers__"
"""So that a decorated function that a tool search gives is known for what it is."""

# Any: a tool may be a function of any signature.
_F = TypeVar("_F", bound=Callable[..., Any])


class FunctionToolset(PydanticFunctionToolset[AgentDepsT]):
    """Functions as tools; those marked `code` are seen only by programs.

    `tool` takes functions with and without a `RunContext`, and all options of Pydantic AI's own.
    """

    @overload
    def tool(self, function: _F, /) -> _F: ...
    @overload
    def tool(self, /, *, allowed_callers: AllowedCallers | None = None, **options: Any) -> Callable[[_F], _F]: ...
    def tool(
        self, function: _F | None = None, /, *, allowed_callers: AllowedCallers | None = None, **options: Any
    ) -> Any:
        """Register a function, bare (`@toolset.tool`) or with options (`@toolset.tool(allowed_callers='both')`)."""

        def register(function: _F) -> _F:
            self.add_function(function, allowed_callers=allowed_callers, **options)
            return function

        return register if function is None else register(function)

    # Any: the options are those of Pydantic AI.
    def add_function(self, func: Any, *args: Any, allowed_callers: AllowedCallers | None = None, **options: Any) -> Any:
        """As Pydantic AI's, with the mark.

        Raises:
            UsageError: the mark is none of the three words.
        """
        if allowed_callers is not None:
            mark = check_mark(allowed_callers, options.get("name") or func.__name__)
            options["metadata"] = {**(options.get("metadata") or {}), MARK: mark}
            with suppress(AttributeError, TypeError):  # not every callable can be marked
                setattr(func, MARK_ON_FUNCTION, mark)
        return super().add_function(func, *args, **options)

    # Any: metadata is whatever its author puts there.
    def with_metadata(self, **metadata: Any) -> SetMetadataToolset[AgentDepsT]:
        """As Pydantic AI's; tools that are marked `code` here are seen only by programs, too."""
        return _MarkedFunctionToolset(self, metadata)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        return _visible_tools(await super().get_tools(ctx))


class _MarkedFunctionToolset(SetMetadataToolset[AgentDepsT]):
    """Sets a mark, and keeps to it."""

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        return _visible_tools(await super().get_tools(ctx))


def _visible_tools(tools: dict[str, ToolsetTool[AgentDepsT]]) -> dict[str, ToolsetTool[AgentDepsT]]:
    """Tools without those that only programs may call, unless they are listed for programs."""
    if listing_for_code:
        return tools
    return {name: tool for name, tool in tools.items() if callers_of(tool.tool_def) != "code"}
