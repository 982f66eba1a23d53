"""The public names of the gem door; see `toolfold.doors.gem`."""

from toolfold.doors.gem.batch import ProgramBatch
from toolfold.doors.gem.create import (
    create_programmatic_tool_calling_tool_http,
    create_programmatic_tool_calling_tool_stdio,
)
from toolfold.doors.gem.executor import Executor, FiveValues
from toolfold.doors.gem.filesystem import create_filesystem_tool
from toolfold.doors.gem.local import LocalTools
from toolfold.doors.gem.memory import create_memory_tool
from toolfold.doors.gem.tool import ProgrammaticToolCallingTool

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
