"""Adapters to OpenAI, Anthropic and LangChain: a runtime as their tool, and their tools for programs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolfold.interfaces.frameworks.anthropic import AnthropicTool, anthropic_tool
    from toolfold.interfaces.frameworks.langchain import from_langchain, langchain_tool
    from toolfold.interfaces.frameworks.openai import OpenAITool, openai_tool

__all__ = [
    "AnthropicTool",
    "OpenAITool",
    "anthropic_tool",
    "from_langchain",
    "langchain_tool",
    "openai_tool",
]

_LAZY: Final = {
    "AnthropicTool": "toolfold.interfaces.frameworks.anthropic",
    "OpenAITool": "toolfold.interfaces.frameworks.openai",
    "anthropic_tool": "toolfold.interfaces.frameworks.anthropic",
    "from_langchain": "toolfold.interfaces.frameworks.langchain",
    "langchain_tool": "toolfold.interfaces.frameworks.langchain",
    "openai_tool": "toolfold.interfaces.frameworks.openai",
}


# Any: the type of each name is known to mypy from the imports above. Later: each may need an extra.
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value
