"""A client that closes its connection before its program started: nothing is run for it, and nothing has failed."""

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served
from tests.interfaces.http.talk import start
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.settings import Settings


class Host:
    """Tools of the server: one that notes who ran, one that waits until it is let go."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.changed = asyncio.Event()
        self.let_go = asyncio.Event()

    @property
    def options(self) -> dict[str, Any]:
        async def mark(name: str) -> None:
            self.ran.append(name)
            self.changed.set()

        async def hang() -> None:
            await self.let_go.wait()

        return {"options": {"tools": [mark, hang]}, "running": 1}

    async def has_run(self, name: str) -> None:
        while name not in self.ran:
            self.changed.clear()
            await self.changed.wait()


def code(name: str, *, hangs: bool = False) -> str:
    return f"await mark(name={name!r})" + ("\nawait hang()" if hangs else "")


async def send_and_leave(
    client: httpx.AsyncClient, text: str, *, body: Any = None, headers: Any = None, until: Any = None
) -> None:
    """Send a start and close the connection, at once or after `until`."""
    sent = json.dumps({"code": text, "tools": [], **(body or {})}).encode()
    named = {"Content-Type": "application/json", "Content-Length": str(len(sent)), **(headers or {})}
    await post_and_leave(client, "/exec/programmatic", named, sent, until)


async def post_and_leave(
    client: httpx.AsyncClient, path: str, headers: dict[str, str], sent: bytes, until: Any = None
) -> None:
    named = {"Host": "localhost", "X-API-Key": KEYS["one"], **headers}
    lines = "".join(f"{key}: {value}\r\n" for key, value in named.items())
    _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + sent)
    await writer.drain()
    if until is not None:
        await until
    writer.close()
    await writer.wait_closed()


async def dropped(client: httpx.AsyncClient) -> None:
    """Returns when one request was dropped."""
    while 'toolfold_http_refusals_total{status="499"} 1' not in (await client.get("/metrics")).text:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("body", [{}, {"session_id": "shared"}], ids=["turn", "session"])
async def test_a_request_whose_client_has_gone_is_not_run(served: Served, body: Any) -> None:
    host = Host()
    async with served(**host.options) as client:
        first = asyncio.create_task(start(client, code("first", hangs=True), **body))
        await host.has_run("first")
        await send_and_leave(client, code("left"), body=body)
        async with asyncio.timeout(20):
            await dropped(client)
        third = asyncio.create_task(start(client, code("third"), **body))
        host.let_go.set()
        answers = [(await one).json()["status"] for one in (first, third)]

    assert (answers, host.ran) == (["completed", "completed"], ["first", "third"])


async def test_a_keyed_request_whose_client_has_gone_is_run_in_its_turn(served: Served) -> None:
    host = Host()
    async with served(**host.options) as client:
        first = asyncio.create_task(start(client, code("first", hangs=True)))
        await host.has_run("first")
        await send_and_leave(client, code("left"), headers={"Idempotency-Key": "a"})
        host.let_go.set()
        await first
        await host.has_run("left")

    assert host.ran == ["first", "left"]


async def test_a_program_whose_client_has_gone_runs_to_its_end(served: Served) -> None:
    host = Host()
    async with served(**host.options) as client:
        await send_and_leave(client, code("left", hangs=True), until=host.has_run("left"))
        third = asyncio.create_task(start(client, code("third")))
        host.let_go.set()
        answer = (await third).json()

    assert (answer["status"], host.ran) == ("completed", ["left", "third"])


@pytest.mark.parametrize(
    ("path", "kind", "sent"),
    [
        ("/exec/programmatic", "application/json", b'{"code": "'),
        ("/upload", "multipart/form-data; boundary=x", b"--x\r\n"),
    ],
)
async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_failure(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, path: str, kind: str, sent: bytes
) -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(caplog.handler)
    try:
        await post_and_leave(client, path, {"Content-Length": "10000", "Content-Type": kind}, sent)
        async with asyncio.timeout(20):
            await dropped(client)
    finally:
        logger.removeHandler(caplog.handler)

    assert caplog.messages == []


async def test_a_large_body_whose_client_has_gone_is_not_decoded_and_frees_its_place() -> None:
    gate, left = Gate(Settings(running=1)), asyncio.Event()
    stays: Any = asyncio.Event().wait
    decoded: list[str] = []

    async def decode(name: str, gone: Any) -> None:
        async with gate.large_body("one", gone):
            decoded.append(name)

    async with gate.large_body("one", stays):
        leaving = asyncio.create_task(decode("left", left.wait))
        staying = asyncio.create_task(decode("stayed", stays))
        await asyncio.sleep(0)
        left.set()
        with pytest.raises(Refusal) as refused:
            await leaving
    await staying

    assert (refused.value.status, decoded) == (499, ["stayed"])
