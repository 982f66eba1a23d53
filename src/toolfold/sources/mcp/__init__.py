"""MCP servers as tools: every server that people already have, bridged into programs. Needs the extra `mcp`."""

from toolfold.sources.mcp.bridge import Bridge
from toolfold.sources.mcp.connection import Outer
from toolfold.sources.mcp.server_definition import OAuth, Server, ServerStatus

__all__ = ["Bridge", "OAuth", "Outer", "Server", "ServerStatus"]
