"""Executions that are waited for at another replica than the one that runs them, or after that is gone."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.http.fleet import Fleet, running_fleet, until
from tests.interfaces.http.talk import WEATHER, result
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401

pytestmark = pytest.mark.long
ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
async def fleet(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Fleet]:
    """Two replicas."""
    with running_fleet(tmp_path, redis_server, database=7) as fleet:
        await fleet.start(2)
        yield fleet
        for replica in fleet.replicas:
            await replica.client.aclose()


async def begin(client: Any, code: str, *tools: Any) -> str:
    started = await client.post("/exec/programmatic", json={"code": code, "tools": list(tools)}, headers=ASYNC)
    assert started.status_code == 202
    return str(started.headers["location"])


async def test_any_replica_waits_shows_the_output_and_cancels(fleet: Fleet) -> None:
    here, there = (replica.client for replica in fleet.replicas)
    url = await begin(here, "print('one')\nprint(await look(name='a'))\nprint('two')")
    await until(lambda: fleet.exists("a.hangs"))
    still = await there.get(url, params={"wait": 0.1})
    foreign = await there.get(url, headers={"X-API-Key": "key-of-two"})
    async with there.stream("GET", f"{url}/output") as stream:
        lines = stream.aiter_lines()
        first = [await anext(lines) for _ in range(3)]
        waits = [asyncio.create_task(one.get(url, params={"wait": 60})) for one in (here, there)]
        fleet.let_go("a")
        rest = [line async for line in lines]
    ended = [(await wait).json() for wait in waits]
    late = await there.get(url)
    other = await begin(here, "print(await look(name='b'))")
    await until(lambda: fleet.exists("b.hangs"))
    deleted = await there.delete(other)
    gone = [(await one.get(other, params={"wait": 60})).json() for one in (here, there)]

    assert (still.status_code, still.headers["location"]) == (202, url)
    assert foreign.status_code == 404
    assert first == ["id: 4,0", "event: stdout", 'data: "one\\n"']
    assert [json.loads(line[6:]) for line in rest if line.startswith("data: ")] == ["1\ntwo\n", "finished"]
    assert ended[0] == ended[1] == late.json()
    assert ended[0]["stdout"] == "one\n1\ntwo\n"
    assert deleted.status_code == 202
    assert [one["error"] for one in gone] == ["Execution cancelled"] * 2


async def test_an_execution_that_still_waits_for_its_turn_is_found_and_cancelled_at_another_replica(
    fleet: Fleet,
) -> None:
    here, there = (replica.client for replica in fleet.replicas)
    busy = {"code": "await look(name='d')", "session_id": "one-turn"}
    first = await here.post("/exec", json=busy, headers=ASYNC)
    await until(lambda: fleet.exists("d.hangs"))
    second = await here.post("/exec", json={"code": "await charge(name='e')", "session_id": "one-turn"}, headers=ASYNC)
    url = second.headers["location"]
    foreign = await there.delete(url, headers={"X-API-Key": "key-of-two"})
    still = await there.get(url)
    deleted = await there.delete(url)
    ended = await there.get(url, params={"wait": 60})
    fleet.let_go("d")
    done = await there.get(first.headers["location"], params={"wait": 60})

    assert (foreign.status_code, still.status_code) == (404, 202)
    assert (deleted.status_code, deleted.json()) == (202, {"status": "cancellation_requested"})
    assert (ended.status_code, ended.json()["error"]) == (400, "Execution cancelled")
    assert done.status_code == 200
    assert not fleet.exists("charged.txt")


async def test_what_a_killed_replica_ran_goes_on_where_it_is_waited_for_round_by_round(fleet: Fleet) -> None:
    here, there = fleet.replicas
    code = "print(await get_weather(city='A'))\nprint(await look(name='c'))\nprint(await get_weather(city='B'))"
    url = await begin(here.client, code, WEATHER)
    paused = (await there.client.get(url, params={"wait": 60})).json()
    again = await there.client.post(
        "/exec/programmatic",
        json={
            "continuation_token": paused["continuation_token"],
            "tool_results": [result(paused["tool_calls"][0], "sunny")],
        },
        headers=ASYNC,
    )
    await until(lambda: fleet.exists("c.hangs"))
    here.send(signal.SIGKILL)
    fleet.let_go("c")
    second = (await there.client.get(url, params={"wait": 60})).json()
    plain = await there.client.post(
        "/exec/programmatic",
        json={
            "continuation_token": second["continuation_token"],
            "tool_results": [result(second["tool_calls"][0], "rain")],
        },
    )
    ended = await there.client.get(url)

    assert (again.status_code, again.headers["location"]) == (202, url)
    assert second["tool_calls"] == [{"id": "call_003", "name": "get_weather", "input": {"city": "B"}}]
    assert plain.json()["stdout"] == "sunny\n1\nrain\n"
    assert ended.json() == plain.json()
