"""A flood of requests that are refused: it has to wait, and nobody else does."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served
from toolfold.interfaces.http.access.auth import FREE, LONGEST_SECONDS, RefusalThrottle

PROGRAM = {"code": "print(1)"}
NOT_JSON: dict[str, Any] = {"content": b"no", "headers": {"Content-Type": "application/json"}}


async def flood(client: httpx.AsyncClient, count: int, **options: Any) -> list["asyncio.Task[httpx.Response]"]:
    """So many requests at once, of which all that are free have been answered."""
    tasks = [asyncio.create_task(client.post("/exec", **options)) for _ in range(count)]
    while sum(task.done() for task in tasks) < FREE:
        await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
    return tasks


async def end(tasks: list["asyncio.Task[httpx.Response]"]) -> set[int]:
    """The statuses of those that were answered."""
    answered = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {task.result().status_code for task in answered}


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (NOT_JSON, 400),
        ({**NOT_JSON, "headers": {**NOT_JSON["headers"], "User-Agent": "LibreChat/1.0"}}, 200),
        ({"json": PROGRAM, "headers": {"X-API-Key": "wrong"}}, 401),
    ],
)
async def test_a_flood_of_refusals_waits_and_other_tenants_do_not(
    served: Served, refused: dict[str, Any], status: int
) -> None:
    async with served(refusals_per_second=0.01) as client:
        tasks = await flood(client, FREE + 20, **refused)

        others = await client.post("/exec", json=PROGRAM, headers={"X-API-Key": KEYS["two"]})

        waiting = sum(not task.done() for task in tasks)
        assert (others.json()["stdout"], waiting, await end(tasks)) == ("1\n", 20, {status})


async def test_a_tenant_in_a_flood_waits_with_its_next_program_too(served: Served) -> None:
    async with served(refusals_per_second=0.01) as client:
        tasks = await flood(client, FREE + 1, **NOT_JSON)

        late = asyncio.create_task(client.post("/exec", json=PROGRAM))
        others = await client.post("/exec", json=PROGRAM, headers={"X-API-Key": KEYS["two"]})

        assert (others.status_code, late.done()) == (200, False)
        await end([*tasks, late])


async def test_what_was_owed_is_forgotten_at_the_rate(served: Served) -> None:
    async with served(refusals_per_second=1e6) as client:
        tasks = [asyncio.create_task(client.post("/exec", **NOT_JSON)) for _ in range(3 * FREE)]

        assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {400}
        assert (await client.post("/exec", json=PROGRAM)).json()["stdout"] == "1\n"


def test_the_wait_grows_with_the_refusals_and_has_an_end() -> None:
    now = [0.0]
    pace = RefusalThrottle(10.0, clock=lambda: now[0])

    at_first = [pace.count("one") for _ in range(FREE)]
    then = [pace.count("one") for _ in range(3)]
    far = pace.count("one", 1000)
    now[0] = 1000.0

    assert (set(at_first), then, far) == ({0.0}, [0.1, 0.2, 0.3], LONGEST_SECONDS)
    assert (pace.seconds_of("one"), pace.seconds_of("two"), pace.is_idle) == (0.0, 0.0, True)


def test_a_server_without_keys_keeps_no_pace(tmp_path: Any) -> None:
    from toolfold import Runtime
    from toolfold.interfaces.http import Settings, create_app
    from toolfold.ledger.memory import MemoryLedger

    ledger = MemoryLedger()
    names = {
        is_keyed: [
            one.cls.__name__
            for one in create_app(
                Runtime(ledger=ledger), ledger, Settings(keys=KEYS if is_keyed else {})
            ).user_middleware
        ]
        for is_keyed in (True, False)
    }

    assert names == {True: ["Paced", "Intakes"], False: ["OnlyFromHere", "Intakes"]}
