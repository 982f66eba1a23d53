"""A real server on a real port, in the test's own event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from toolfold import Runtime
from toolfold.interfaces.http import Settings, create_app
from toolfold.ledger.memory import MemoryLedger
from toolfold.sessions.stores import FolderStore

KEYS = {"one": "key-of-one", "two": "key-of-two"}
Served = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


class Silent(uvicorn.Server):
    """Leaves signals to pytest."""

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


@asynccontextmanager
async def serve(
    settings: Settings, folder: Path, /, *, ledger: Any = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    ledger = MemoryLedger() if ledger is None else ledger
    runtime = Runtime(ledger=ledger, session_files=FolderStore(folder), **options)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    server = Silent(uvicorn.Config(create_app(runtime, ledger, settings), log_level="error", access_log=False))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    headers = {"X-API-Key": KEYS["one"]} if settings.keys else {}
    url = f"http://127.0.0.1:{listening.getsockname()[1]}{settings.base_path}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield client
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def inside(
    settings: Settings, folder: Path, *, ledger: Any = None, engine: Any = "auto", **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """The same app without a port: for thousands of requests, or a clock of one's own."""
    ledger = MemoryLedger() if ledger is None else ledger
    runtime = Runtime(ledger=ledger, session_files=FolderStore(folder), engine=engine)
    app = create_app(runtime, ledger, settings, **options)
    headers = {"X-API-Key": KEYS["one"]} if settings.keys else {}
    # Raised exceptions become 500 here, as on a port.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers, timeout=60) as client,
    ):
        yield client


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """Serve with settings of the test's own."""

    def one(folder: str = "files", ledger: Any = None, options: Any = None, **settings: Any) -> Any:
        return serve(
            Settings(**{"keys": KEYS, "refusals_per_second": 1e9, **settings}),
            tmp_path / folder,
            ledger=ledger,
            **(options or {}),
        )

    return one


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with served() as client:
        yield client
