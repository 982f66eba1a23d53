"""The public names of the orchestrator door; see `toolfold.doors.orchestrator`."""

from toolfold.doors.orchestrator import (
    MCPClientShim,
    ProgrammaticToolExecutor,
    StubGenerator,
    ToolCatalog,
    ToolDefinition,
    ToolParameter,
    call_context,
    call_tool,
    function_map,
    tool_map,
)

__all__ = [
    "MCPClientShim",
    "ProgrammaticToolExecutor",
    "StubGenerator",
    "ToolCatalog",
    "ToolDefinition",
    "ToolParameter",
    "call_context",
    "call_tool",
    "function_map",
    "tool_map",
]
