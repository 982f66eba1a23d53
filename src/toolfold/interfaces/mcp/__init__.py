"""MCP interface: `execute_program` for Claude Code and every other MCP client, over stdio or HTTP."""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolfold.interfaces.mcp.server import McpServer

__all__ = ["McpServer"]

# It loads the SDK, and the first answer comes before that.
__getattr__ = lazy_exports(__name__, {"McpServer": "toolfold.interfaces.mcp.server"})
