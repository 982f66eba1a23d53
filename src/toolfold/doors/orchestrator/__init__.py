"""Catalog, workers and executor under the names that hosts of `ProgrammaticToolExecutor` import.

The runtime does the work; this door only takes its input and renders its outcome.
"""

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
