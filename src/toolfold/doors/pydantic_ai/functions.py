"""`FunctionToolset` as Pydantic AI's, with a mark for who may call a tool, and one decorator for both kinds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, overload

from pydantic_ai import FunctionToolset as PydanticFunctionToolset
from pydantic_ai import RunContext, ToolsetTool
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import SetMetadataToolset

from toolfold.doors.pydantic_ai.callers import MARK, callers_of, checked, is_listing_for_code
from toolfold.models import AllowedCallers

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
            mark = checked(allowed_callers, options.get("name") or func.__name__)
            options["metadata"] = {**(options.get("metadata") or {}), MARK: mark}
            with suppress(AttributeError, TypeError):  # not every callable can be marked
                setattr(func, MARK_ON_FUNCTION, mark)
        return super().add_function(func, *args, **options)

    # Any: metadata is whatever its author puts there.
    def with_metadata(self, **metadata: Any) -> SetMetadataToolset[AgentDepsT]:
        """As Pydantic AI's; tools that are marked `code` here are seen only by programs, too."""
        return _MarkedFunction(self, metadata)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        return _seen(await super().get_tools(ctx))


class _MarkedFunction(SetMetadataToolset[AgentDepsT]):
    """Sets a mark, and keeps to it."""

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        return _seen(await super().get_tools(ctx))


def _seen(tools: dict[str, ToolsetTool[AgentDepsT]]) -> dict[str, ToolsetTool[AgentDepsT]]:
    """Without those that only programs may call, unless they are listed for programs."""
    if is_listing_for_code():
        return tools
    return {name: tool for name, tool in tools.items() if callers_of(tool.tool_def) != "code"}
