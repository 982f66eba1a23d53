"""Tool objects for gem's agent and RL environments, whose programs call the environment's other tools.

Nothing here needs gem itself; the tool objects have what gem's `ToolEnvWrapper` and the
environments built on it ask of a tool.
"""

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
