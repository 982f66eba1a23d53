"""The public names of the orchestrator door; see `toolfold.doors.orchestrator`."""

from toolfold.doors.orchestrator.definitions import ToolCatalog, ToolDefinition, ToolParameter
from toolfold.doors.orchestrator.executor import ProgrammaticToolExecutor, call_tool
from toolfold.doors.orchestrator.shim import MCPClientShim
from toolfold.doors.orchestrator.stub_files import StubGenerator
from toolfold.doors.orchestrator.workers import call_context, function_map, tool_map

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
