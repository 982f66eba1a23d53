"""Folds many tool calls into one program, run in a sandbox.

Values and errors are imported at once; what pulls in pydantic and the engines waits for its
first use, so that `import toolfold` and the command line start fast.
"""

import signal
import sys
from typing import TYPE_CHECKING

# The command, `toolfold` or `python -m toolfold`, is loading: until it handles Ctrl-C, that ends it without a word.
_is_command = sys.argv[:1] == ["-m"] or (len(sys.argv) > 0 and sys.argv[0].endswith("/toolfold"))
if _is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Loading takes its time in these imports, so they come after the lines above.
# ruff: noqa: E402
from toolfold.errors import EngineCrashed, EngineError, EngineUnavailable, ToolError, ToolfoldError, UsageError
from toolfold.lazy_exports import lazy_exports
from toolfold.models import (
    Call,
    CallRecord,
    ContextSaved,
    File,
    Limits,
    Media,
    Outcome,
    Paused,
    Problem,
    ProgramOptions,
    Reply,
    ToolSpec,
)

if TYPE_CHECKING:
    from toolfold.execution.pauses import PausedLimits
    from toolfold.execution.registry import Answers, BackgroundExecution, drive, refuse_approvals
    from toolfold.interfaces.config_runtime import from_config
    from toolfold.outcome_views import value_as_json
    from toolfold.prompts.python_stubs import prompt_text
    from toolfold.runtime import Runtime, RuntimeSettings, run_sync
    from toolfold.sessions import SessionLimits
    from toolfold.sessions.stores import FolderStore
    from toolfold.sources.function_tools import as_tool, tool
    from toolfold.sources.openapi.source import openapi_tools
    from toolfold.sources.shell_commands import shell_tool
    from toolfold.sources.web.credentials import ApiAuth
    from toolfold.tools.policy import Policy
    from toolfold.tools.tool import CallContext, Decision, Tool

__version__ = "0.2.0.dev0"

__all__ = [
    "Answers", "ApiAuth", "BackgroundExecution", "Call", "CallContext", "CallRecord", "ContextSaved", "Decision",
    "EngineCrashed", "EngineError", "EngineUnavailable", "File", "FolderStore", "Limits", "Media", "Outcome", "Paused",
    "PausedLimits", "Policy", "Problem", "ProgramOptions", "Reply", "Runtime", "RuntimeSettings", "SessionLimits",
    "Tool", "ToolError", "ToolSpec", "ToolfoldError", "UsageError", "as_tool", "drive", "from_config", "openapi_tools",
    "prompt_text", "refuse_approvals", "run_sync", "shell_tool", "tool", "value_as_json",
]  # fmt: skip

__getattr__ = lazy_exports(
    __name__,
    {"Answers": "toolfold.execution.registry", "BackgroundExecution": "toolfold.execution.registry",
     "CallContext": "toolfold.tools.tool", "Decision": "toolfold.tools.tool", "Policy": "toolfold.tools.policy",
     "FolderStore": "toolfold.sessions.stores", "PausedLimits": "toolfold.execution.pauses",
     "Runtime": "toolfold.runtime", "RuntimeSettings": "toolfold.runtime", "SessionLimits": "toolfold.sessions",
     "Tool": "toolfold.tools.tool", "as_tool": "toolfold.sources.function_tools",
     "drive": "toolfold.execution.registry", "from_config": "toolfold.interfaces.config_runtime",
     "ApiAuth": "toolfold.sources.web.credentials", "openapi_tools": "toolfold.sources.openapi.source",
     "prompt_text": "toolfold.prompts.python_stubs", "refuse_approvals": "toolfold.execution.registry",
     "run_sync": "toolfold.runtime", "shell_tool": "toolfold.sources.shell_commands",
     "tool": "toolfold.sources.function_tools", "value_as_json": "toolfold.outcome_views"},
)  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
