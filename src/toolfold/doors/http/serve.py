"""Listens, and ends in good order: first no new requests, then the running ones, then the guests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from fastapi import FastAPI

from toolfold.doors.connections import Patience
from toolfold.doors.listening import Server, listen
from toolfold.doors.signals import on_signal
from toolfold.errors import UsageError

DRAIN_SECONDS: Final = 30
"""What running programs get after a SIGTERM; paused ones wait in the ledger for the next process."""
_ANSWER_SECONDS: Final = 3
"""Of these, for the answers to programs that are cut off: what is on record can be gone on with."""


async def serve(
    app: FastAPI, host: str, port: int, *, on_listening: Callable[[int], None] | None = None,
    listening: socket.socket | None = None,
) -> None:  # fmt: skip
    """Serve until SIGINT or SIGTERM; a second signal does not wait for running programs.

    `listening` is the address, where it was opened before.
    """
    listening = listening or listen(host, port)
    patience = Patience(connections=app.state.max_connections)
    server = Server(
        app, patience, access_log=False, timeout_graceful_shutdown=DRAIN_SECONDS, server_header=False, lifespan="off"
    )

    draining: list[asyncio.Task[None]] = []

    def stop() -> None:
        loop = asyncio.get_running_loop()
        if not draining:
            # At once: what is paused need not wait for the running ones to end.
            draining.append(asyncio.ensure_future(app.state.drain()))
            loop.call_later(DRAIN_SECONDS - _ANSWER_SECONDS, app.state.suspend)
        elif not server.force_exit:
            app.state.suspend()
            loop.call_later(_ANSWER_SECONDS, force)
        server.should_exit = True

    def force() -> None:
        server.force_exit = True

    if on_listening is not None:
        on_listening(listening.getsockname()[1])
    if app.state.replicas is not None:
        app.state.replicas.listens_at(_address(host, listening.getsockname()[1]))
    # Opened here and not by uvicorn: an engine that is not available must reach the caller, who says it in one line.
    with listening, on_signal(stop):
        async with app.router.lifespan_context(app):
            await server.serve(sockets=[listening])
    await asyncio.gather(*draining)
    if not server.started:
        raise UsageError("the server could not start; the lines above say why")


def _address(host: str, port: int) -> str:
    """Where a replica is reached unless it was told; nothing where it listens on every address it has."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not listened on
        return ""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
