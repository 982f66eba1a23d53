"""Listens, and ends in good order: first no new requests, then the running ones, then the guests."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI

from toolfold.doors.signals import on_signal
from toolfold.errors import UsageError

_log: Final = logging.getLogger(__name__)
DRAIN_SECONDS: Final = 30
"""What running programs get after a SIGTERM; paused ones wait in the ledger for the next process."""


async def serve(app: FastAPI, host: str, port: int, *, on_listening: Callable[[int], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM; a second signal does not wait for running programs."""
    listening = _listen(host, port)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=DRAIN_SECONDS, server_header=False
    )
    server = _Server(config)

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    if on_listening is not None:
        on_listening(listening.getsockname()[1])
    with listening, on_signal(stop):
        await server.serve(sockets=[listening])
    if not server.started:
        raise UsageError("the server could not start; the lines above say why")


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them again before our guests have ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
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
        raise UsageError(f"{host}:{port} cannot be listened on: {text}; choose another with --port") from None
    return listening
