"""The public names of the gem door; see `toolfold.doors.gem`."""

from toolfold.doors.gem import (
    Executor,
    FiveValues,
    LocalTools,
    ProgramBatch,
    ProgrammaticToolCallingTool,
    create_filesystem_tool,
    create_memory_tool,
    create_programmatic_tool_calling_tool_http,
    create_programmatic_tool_calling_tool_stdio,
)

__all__ = [
    "Executor",
    "FiveValues",
    "LocalTools",
    "ProgramBatch",
    "ProgrammaticToolCallingTool",
    "create_filesystem_tool",
    "create_memory_tool",
    "create_programmatic_tool_calling_tool_http",
    "create_programmatic_tool_calling_tool_stdio",
]
