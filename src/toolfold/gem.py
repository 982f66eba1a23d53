"""The public names of the gem interface; see `toolfold.interfaces.gem`."""

from toolfold.interfaces.gem.action_text import FiveValues
from toolfold.interfaces.gem.local_tools import LocalTools, create_filesystem_tool, create_memory_tool
from toolfold.interfaces.gem.program_batch import ProgramBatch
from toolfold.interfaces.gem.program_tool import (
    Executor,
    ProgrammaticToolCallingTool,
    create_programmatic_tool_calling_tool_http,
    create_programmatic_tool_calling_tool_stdio,
)

__all__ = [
    "Executor", "FiveValues", "LocalTools", "ProgramBatch", "ProgrammaticToolCallingTool", "create_filesystem_tool",
    "create_memory_tool", "create_programmatic_tool_calling_tool_http", "create_programmatic_tool_calling_tool_stdio",
]  # fmt: skip
