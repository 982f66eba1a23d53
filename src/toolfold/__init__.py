"""Folds many tool calls into one program, run in a sandbox.

Values and errors are imported at once; what pulls in pydantic and the engines waits for its
first use, so that `import toolfold` and the command line start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import EngineCrashed, EngineError, EngineUnavailable, ToolError, ToolfoldError, UsageError
from toolfold.models import Call, CallRecord, File, Limits, Media, Outcome, Paused, Problem, Reply, ToolSpec

if TYPE_CHECKING:
    from toolfold.interfaces.frameworks.anthropic import anthropic_tool
    from toolfold.interfaces.frameworks.langchain import langchain_tool
    from toolfold.interfaces.frameworks.openai import openai_tool
    from toolfold.interfaces.library import from_config
    from toolfold.interfaces.sync import run_sync
    from toolfold.runtime import Runtime
    from toolfold.sources.functions import tool
    from toolfold.sources.openapi.source import openapi_tools
    from toolfold.tools.tool import Tool

__version__ = "0.1.0"

__all__ = [
    "Call",
    "CallRecord",
    "EngineCrashed",
    "EngineError",
    "EngineUnavailable",
    "File",
    "Limits",
    "Media",
    "Outcome",
    "Paused",
    "Problem",
    "Reply",
    "Runtime",
    "Tool",
    "ToolError",
    "ToolSpec",
    "ToolfoldError",
    "UsageError",
    "anthropic_tool",
    "from_config",
    "langchain_tool",
    "openai_tool",
    "openapi_tools",
    "run_sync",
    "tool",
]

_LAZY: Final = {
    "Runtime": "toolfold.runtime",
    "Tool": "toolfold.tools.tool",
    "anthropic_tool": "toolfold.interfaces.frameworks.anthropic",
    "from_config": "toolfold.interfaces.library",
    "langchain_tool": "toolfold.interfaces.frameworks.langchain",
    "openai_tool": "toolfold.interfaces.frameworks.openai",
    "openapi_tools": "toolfold.sources.openapi.source",
    "run_sync": "toolfold.interfaces.sync",
    "tool": "toolfold.sources.functions",
}


# Any: the type of a lazy name is known to mypy from the imports above.
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'toolfold' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
