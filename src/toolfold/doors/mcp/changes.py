"""Who is told that something has changed, in both eras: all clients of tools, each client of its own files."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import ResourcesListChanged, ServerEvent

CLIENT: Final[ContextVar[str]] = ContextVar("toolfold_client", default="")
"""The client whose request is being served."""


class Changes:
    """The SDK's bus of the newer era, which also knows whose stream is whose."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[str, Callable[[ServerEvent], None]]] = {}

    async def publish(self, event: ServerEvent) -> None:
        """To everyone who listens."""
        self._deliver(event, None)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Called by the SDK while it serves the request of the client that listens."""
        key = object()
        self._listeners[key] = (CLIENT.get(), listener)
        return lambda: self._listeners.pop(key, None) and None

    def tell_files(self, client: str) -> None:
        """This client has new files: no other client learns that there are any."""
        self._deliver(ResourcesListChanged(), client)

    def _deliver(self, event: ServerEvent, client: str | None) -> None:
        for whose, listener in tuple(self._listeners.values()):
            if client is None or whose == client:
                listener(event)  # only puts it into the stream's own buffer, and does not raise


# Any: nothing here reads what the lifespan yields.
class DeclaringServer(Server[Any]):
    """Declares in every handshake what is sent; over HTTP the SDK makes the options itself, and leaves that out."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        sent = notification_options or NotificationOptions(tools_changed=True, resources_changed=True)
        return super().create_initialization_options(sent, experimental_capabilities, extensions)
