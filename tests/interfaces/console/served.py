"""A console on a real port, for tests that speak HTTP to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from fastapi import FastAPI

from toolfold.interfaces.console.access import COOKIE, Access
from toolfold.interfaces.console.app import create_console
from toolfold.interfaces.server.http_server import ConnectionLimits, HttpServer, listen
from toolfold.ledger.base import Ledger
from toolfold.runtime import Runtime

KEY = b"k" * 32
NASTY = "<script>alert(1)</script>\x1b[31m\u202e"


@dataclass
class Console:
    client: httpx2.AsyncClient
    access: Access
    url: str

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.client.get(f"/api/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: Any) -> httpx2.Response:
        return await self.client.post(f"/api/{path}", json=body)


@asynccontextmanager
async def served(runtime: Runtime, ledger: Ledger, *, signs_in: bool = True, **options: Any) -> AsyncIterator[Console]:
    access = Access(KEY, auth=options.pop("auth", None), may_act=options.pop("may_act", True))
    async with (
        listening(create_console(runtime, ledger, access, **options)) as url,
        httpx2.AsyncClient(base_url=url, timeout=30) as client,
    ):
        if signs_in:
            answer = await client.get("/login", params={"token": access.new_token()})
            client.cookies.set(COOKIE, answer.cookies[COOKIE], domain="127.0.0.1")
        yield Console(client, access, url)


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncIterator[str]:
    with listen("127.0.0.1", 0) as sock:
        server = HttpServer(app, ConnectionLimits(), access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        async with app.router.lifespan_context(app):
            task = asyncio.create_task(server.serve(sockets=[sock]))
            try:
                yield f"http://127.0.0.1:{sock.getsockname()[1]}"
            finally:
                server.should_exit = True
                await task


class Till:
    """Counts what really reached the tool."""

    def __init__(self) -> None:
        self.paid: list[int] = []


async def questions(console: Console, count: int) -> list[dict[str, Any]]:
    while True:
        found = (await console.get("approvals"))["approvals"]
        if len(found) == count:
            return found
        await asyncio.sleep(0.02)


def choice(question: dict[str, Any], **more: Any) -> dict[str, Any]:
    shown = {name: question[name] for name in ("execution_id", "epoch", "call_id", "digest")}
    return {**shown, "approved": True, **more}
