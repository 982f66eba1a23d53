"""The console beside the HTTP interface: each request with a key counts, as every other request of that tenant does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.interfaces.console.served import listening, served
from toolfold import Runtime, tool
from toolfold.config.model import Config
from toolfold.interfaces.console.app import mount_console
from toolfold.interfaces.http.app import create_app
from toolfold.interfaces.http.settings import Settings
from toolfold.ledger.sqlite.store import SqliteLedger

KEYS = {"one": "key-of-one", "two": "key-of-two"}
ONE, TWO = ({"x-api-key": key} for key in KEYS.values())


class Room:
    """A tool's inside: who is in it, and the way out."""

    def __init__(self) -> None:
        self.inside = 0
        self.way_out = asyncio.Event()


@asynccontextmanager
async def mounted(
    folder: Path, ledger: SqliteLedger, room: Room, monkeypatch: pytest.MonkeyPatch, **limits: int
) -> AsyncIterator[httpx2.AsyncClient]:
    @tool(read_only=True)
    async def enter() -> None:
        """Enters the room, and stays until the way out is open."""
        room.inside += 1
        await room.way_out.wait()

    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    app = create_app(Runtime([enter], ledger=ledger), ledger, Settings(keys=KEYS, **limits))
    mount_console(app, Config.model_validate({"http": {"keys": KEYS}}), ledger)
    async with (
        listening(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60, limits=httpx2.Limits(max_connections=200)) as client,
    ):
        yield client


async def test_followers_of_one_tenant_leave_connections_to_the_others(
    tmp_path: Path, ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        mounted(tmp_path, ledger, Room(), monkeypatch, max_connections=40) as client,
        AsyncExitStack() as stack,
    ):
        ended = await client.post("/exec", json={"lang": "py", "code": "print(1)"}, headers=ONE)
        row = (await client.get("/console/api/executions", headers=ONE)).json()["executions"][0]
        path = f"/console/api/executions/{row['execution_id']}/events"
        over = [(await client.get(path, headers=ONE)).status_code for _ in range(10)]
        streams = [
            await stack.enter_async_context(client.stream("GET", "/console/api/events", headers=ONE)) for _ in range(6)
        ]
        others = [
            await stack.enter_async_context(client.stream("GET", "/console/api/events", headers=TWO)) for _ in range(2)
        ]
        again = await client.post("/exec", json={"lang": "py", "code": "print(2)"}, headers=ONE)
        for stream in streams:
            await stream.aclose()
        follow = client.build_request("GET", "/console/api/events", headers=ONE)
        while (last := await client.send(follow, stream=True)).status_code == 429:
            await last.aclose()
            await asyncio.sleep(0)
        stack.push_async_callback(last.aclose)

    assert (ended.status_code, over) == (200, [200] * 10)
    assert [stream.status_code for stream in streams] == [200] * 4 + [429] * 2
    assert [stream.status_code for stream in others] == [200] * 2
    assert streams[-1].headers["retry-after"] == "6"
    assert (again.status_code, last.status_code) == (200, 200)


async def test_reruns_have_the_turns_that_programs_of_the_tenant_have(
    tmp_path: Path, ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room()
    async with mounted(tmp_path, ledger, room, monkeypatch, running=2, waiting=1) as client:
        await client.post("/exec", json={"lang": "py", "code": "print(1)"}, headers=ONE)
        row = (await client.get("/console/api/executions", headers=ONE)).json()["executions"][0]
        path = f"/console/api/executions/{row['execution_id']}/rerun"
        body = {"text": "await enter()\nprint('done')"}
        reruns = {asyncio.ensure_future(client.post(path, json=body, headers=ONE)) for _ in range(6)}
        answered: set[asyncio.Future[httpx2.Response]] = set()
        while len(answered) < 5 or room.inside < 2:
            answered, _ = await asyncio.wait(reruns, timeout=0.02)
        first = sorted(task.result().status_code for task in answered)
        inside = room.inside
        room.way_out.set()
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*reruns))

    assert (first, inside) == ([202, 202, 429, 429, 429], 2)
    assert statuses == [202, 202, 202, 429, 429, 429]


async def test_reruns_count_as_starts_of_the_tenant(
    tmp_path: Path, ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mounted(tmp_path, ledger, Room(), monkeypatch, starts_per_minute=2) as client:
        await client.post("/exec", json={"lang": "py", "code": "print(1)"}, headers=ONE)
        row = (await client.get("/console/api/executions", headers=ONE)).json()["executions"][0]
        path = f"/console/api/executions/{row['execution_id']}/rerun"
        statuses = [(await client.post(path, json={"text": "print(2)"}, headers=ONE)).status_code for _ in range(3)]

    assert statuses == [202, 429, 429]


async def test_a_sign_in_reads_no_more_than_a_key_needs(runtime: Runtime, ledger: SqliteLedger) -> None:
    async with served(runtime, ledger, signs_in=False) as console:
        answer = await console.client.post("/login", content=b"x" * 1_000_000)

    assert answer.status_code == 413
