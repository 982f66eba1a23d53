"""The MCP door: `execute_program` for Claude Code and every other MCP client, over stdio or streamable HTTP."""

from toolfold.doors.mcp.door import Door

__all__ = ["Door"]
