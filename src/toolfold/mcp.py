"""MCP in both directions: servers whose tools programs call, and a server that runs programs. Needs `toolfold[mcp]`."""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolfold.interfaces.mcp.offered_tools import Offer
    from toolfold.interfaces.mcp.server import McpServer
    from toolfold.sources.mcp import Bridge, OAuth, Server, ServerStatus

__all__ = ["Bridge", "McpServer", "OAuth", "Offer", "Server", "ServerStatus"]

__getattr__ = lazy_exports(
    __name__,
    {"Bridge": "toolfold.sources.mcp", "McpServer": "toolfold.interfaces.mcp.server", "OAuth": "toolfold.sources.mcp",
     "Offer": "toolfold.interfaces.mcp.offered_tools", "Server": "toolfold.sources.mcp",
     "ServerStatus": "toolfold.sources.mcp"},
)  # fmt: skip
