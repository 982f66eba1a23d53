"""Adapters to OpenAI, Anthropic and LangChain: a runtime as their tool, and their tools for programs."""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolfold.interfaces.frameworks.anthropic import AnthropicTool, anthropic_tool
    from toolfold.interfaces.frameworks.langchain import from_langchain, langchain_tool
    from toolfold.interfaces.frameworks.openai import OpenAITool, openai_tool

__all__ = ["AnthropicTool", "OpenAITool", "anthropic_tool", "from_langchain", "langchain_tool", "openai_tool"]

__getattr__ = lazy_exports(
    __name__,
    {"AnthropicTool": "toolfold.interfaces.frameworks.anthropic", "OpenAITool": "toolfold.interfaces.frameworks.openai",
     "anthropic_tool": "toolfold.interfaces.frameworks.anthropic",
     "from_langchain": "toolfold.interfaces.frameworks.langchain",
     "langchain_tool": "toolfold.interfaces.frameworks.langchain",
     "openai_tool": "toolfold.interfaces.frameworks.openai"},
)  # fmt: skip
