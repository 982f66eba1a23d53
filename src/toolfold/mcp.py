"""MCP in both directions: servers whose tools programs call, and a server that runs programs. Needs `toolfold[mcp]`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolfold.interfaces.mcp.offer import Offer
    from toolfold.interfaces.mcp.server import McpServer
    from toolfold.sources.mcp import Bridge, OAuth, Server, ServerStatus

__all__ = [
    "Bridge",
    "McpServer",
    "OAuth",
    "Offer",
    "Server",
    "ServerStatus",
]

_LAZY: Final = {
    "Bridge": "toolfold.sources.mcp",
    "McpServer": "toolfold.interfaces.mcp.server",
    "OAuth": "toolfold.sources.mcp",
    "Offer": "toolfold.interfaces.mcp.offer",
    "Server": "toolfold.sources.mcp",
    "ServerStatus": "toolfold.sources.mcp",
}


# Any: the type of each name is known to mypy from the imports above. Later: the SDK is slow to load.
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value
