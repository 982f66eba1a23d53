"""What an attack is given: where the server is, and the hostile tenant's key. Runs in a process of its own."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.hold.host import KEYS

HOSTILE = {"X-API-Key": KEYS["hostile"]}


@dataclass(frozen=True)
class Target:
    """A server to attack."""

    url: str

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname
        assert parts.port
        return parts.hostname, parts.port

    def client(self) -> httpx.AsyncClient:
        """With the key of the hostile tenant."""
        return httpx.AsyncClient(
            base_url=self.url, headers=HOSTILE, timeout=120, limits=httpx.Limits(max_connections=None)
        )

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)

    def head(self, path: str, *, method: str = "POST", length: int | None = None, **headers: str) -> bytes:
        """Of a request, as bytes."""
        named = {"Host": "localhost", "Content-Type": "application/json", **headers}
        if length is not None:
            named["Content-Length"] = str(length)
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
        return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()


async def again_and_again(count: int, once: Callable[[int], Awaitable[Any]]) -> None:
    """So many at a time, each over and over; that one is refused does not end it."""

    async def one(number: int) -> None:
        while True:
            with contextlib.suppress(httpx.HTTPError, OSError, asyncio.IncompleteReadError):
                await once(number)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one(number) for number in range(count)))


async def run_programs(target: Target, count: int, code: str, **body: Any) -> None:
    """The same program by so many clients at a time."""
    async with target.client() as client:

        async def once(_: int) -> None:
            await client.post("/exec/programmatic", json={"code": code, "tools": [], **body})

        await again_and_again(count, once)
