"""A cancel names any request of an execution: LibreChat 3.9.2 gives each request an id of its own."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served
from tests.interfaces.http.talk import go_on, metric, result, start, until
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.service.executions import MAX_REQUESTS

CODE = """
await get_weather(city="a")
await get_weather(city="b")
while True:
    pass
"""


def named(request_id: str) -> dict[str, str]:
    return {"X-LibreChat-Code-Request-ID": request_id}


async def cancel(client: httpx.AsyncClient, request_id: str, **options: str) -> None:
    answer = await client.post("/exec/programmatic/cancel", json={"request_id": request_id}, **options)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()) == (202, {"status": "cancellation_requested"})


@pytest.mark.parametrize("request_id", ["r1", "r2", "r3"])
async def test_any_id_cancels_while_a_later_round_runs(client: httpx.AsyncClient, request_id: str) -> None:
    first = (await start(client, CODE, headers=named("r1"), timeout=60_000)).json()
    second = (await go_on(client, first["continuation_token"], result("call_001", 1), headers=named("r2"))).json()
    third = asyncio.create_task(go_on(client, second["continuation_token"], result("call_002", 1), headers=named("r3")))
    await until(client, "running", 1)

    await cancel(client, request_id)

    assert ((await third).status_code, (await third).json()["error"]) == (400, "Execution cancelled")


@pytest.mark.parametrize("request_id", ["r1", "r2"])
async def test_any_id_cancels_a_paused_execution(client: httpx.AsyncClient, request_id: str) -> None:
    first = (await start(client, CODE, headers=named("r1"))).json()
    second = (await go_on(client, first["continuation_token"], result("call_001", 1), headers=named("r2"))).json()

    await cancel(client, request_id)
    after = await go_on(client, second["continuation_token"], result("call_002", 1))

    assert (await metric(client, "paused"), after.json()["error"]) == (0, "Execution expired")


async def test_the_id_of_a_continuation_that_another_process_replays_cancels_it(served: Served, tmp_path: Path) -> None:
    where = str(tmp_path / "ledger.sqlite")
    before, after = open_ledger(where), open_ledger(where)
    async with served(ledger=before, token_key=b"k" * 32) as client:
        first = (await start(client, CODE, headers=named("r1"), timeout=60_000)).json()
        second = (await go_on(client, first["continuation_token"], result("call_001", 1))).json()
    async with served(ledger=after, token_key=b"k" * 32) as client:
        running = asyncio.create_task(
            go_on(client, second["continuation_token"], result("call_002", 1), headers=named("r3"))
        )
        await until(client, "running", 1)
        await cancel(client, "r3")
        ended = (await running).json()
    history = await after.load((await after.find("", limit=1))[0])
    await before.close()
    await after.close()

    assert ended["error"] == "Execution cancelled"
    assert history is not None
    assert history.outcome is not None
    assert history.outcome.status == "cancelled"


async def test_an_id_of_another_tenant_or_of_an_ended_execution_cancels_nothing(client: httpx.AsyncClient) -> None:
    ended = (await start(client, "await get_weather(city='a')", headers=named("r1"))).json()
    await go_on(client, ended["continuation_token"], result("call_001", 1), headers=named("r2"))
    again = await go_on(client, ended["continuation_token"], result("call_001", 1), headers=named("r3"))
    open_one = (await start(client, CODE, headers=named("r4"))).json()

    for request_id in ("r1", "r2", "r3"):
        await cancel(client, request_id)
    other = {"X-API-Key": KEYS["two"]}
    await client.post("/exec/programmatic/cancel", json={"request_id": "r4"}, headers=other)
    after = await go_on(client, open_one["continuation_token"], result("call_001", 1))

    assert (again.json()["status"], after.json()["status"]) == ("completed", "tool_call_required")


async def test_a_continuation_sent_very_often_leaves_no_more_ids_than_the_last_ones(
    client: httpx.AsyncClient,
) -> None:
    first = (await start(client, CODE, headers=named("r"))).json()
    for at in range(MAX_REQUESTS):
        second = await go_on(client, first["continuation_token"], result("call_001", 1), headers=named(f"r{at}"))

    await cancel(client, "r")
    still = await metric(client, "paused")
    await cancel(client, "r0")

    assert (second.json()["status"], still, await metric(client, "paused")) == ("tool_call_required", 1, 0)
