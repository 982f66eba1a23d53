"""HTTP interface: programs in requests, tools with the client, continuation tokens in between."""

from toolfold.interfaces.http.app import create_app
from toolfold.interfaces.http.settings import Settings

__all__ = ["Settings", "create_app"]
