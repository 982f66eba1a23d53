"""LangChain tools as tools of programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolfold.errors import UsageError, install_extra
from toolfold.models import AllowedCallers, ToolSpec
from toolfold.tools.names import python_name
from toolfold.tools.tool import Tool

try:
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ModuleNotFoundError as error:
    raise UsageError(f"{error.name!r} is not installed; {install_extra('langchain')}") from error


def from_langchain(tool: BaseTool, *, domain: str = "", allowed_callers: AllowedCallers = "both") -> Tool:
    """A LangChain tool under its own name; its callbacks and its handling of errors stay in force."""
    definition = convert_to_openai_tool(tool)["function"]

    # Any: arguments are what the tool takes, replies what it returns.
    async def call(arguments: Mapping[str, Any]) -> Any:
        return await tool.ainvoke(dict(arguments))

    spec = ToolSpec(
        name=tool.name,
        python_name=python_name(tool.name),
        domain=domain,
        description=definition.get("description", ""),
        input_schema=definition.get("parameters") or {"type": "object"},
        allowed_callers=allowed_callers,
        source="langchain",
    )
    return Tool(spec=spec, call=call)
