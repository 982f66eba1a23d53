"""The public names of the orchestrator interface; see `toolfold.interfaces.orchestrator`."""

from toolfold.interfaces.orchestrator.executor import ProgrammaticToolExecutor, call_tool
from toolfold.interfaces.orchestrator.tool_definitions import ToolCatalog, ToolDefinition, ToolParameter
from toolfold.interfaces.orchestrator.workers import MCPClientShim, StubGenerator, call_context, function_map, tool_map

__all__ = [
    "MCPClientShim", "ProgrammaticToolExecutor", "StubGenerator", "ToolCatalog", "ToolDefinition", "ToolParameter",
    "call_context", "call_tool", "function_map", "tool_map",
]  # fmt: skip
