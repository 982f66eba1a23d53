"""MCP interface: `execute_program` for Claude Code and every other MCP client, over stdio or HTTP."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolfold.interfaces.mcp.server import McpServer

__all__ = ["McpServer"]


# Any: its type is known to mypy from the import above.
def __getattr__(name: str) -> Any:
    if name != "McpServer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported here: it loads the SDK, and the first answer comes before that.
    from toolfold.interfaces.mcp.server import McpServer  # noqa: PLC0415

    return McpServer
