"""What the doors that listen share: an address that is really open once it is told, and a server that ends in order."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from toolfold.errors import UsageError


def listen(host: str, port: int) -> socket.socket:
    """Open the address; who connects from now on waits for the server instead of being refused.

    Raises:
        UsageError: it cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol named: without that asyncio does not send small answers at once.
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1024)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        raise UsageError(f"{host}:{port} cannot be listened on: {text}; choose another port") from None
    return listening


class Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them again before our guests have ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
