"""What `/metrics` counts, after real requests."""

import asyncio

import httpx

from tests.interfaces.http.conftest import Served
from tests.interfaces.http.talk import finish, go_on, result, start


async def read(client: httpx.AsyncClient) -> dict[str, float]:
    lines = (await client.get("/metrics")).text.splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name.removeprefix("toolfold_http_"): float(value) for name, _, value in pairs}


async def test_ends_problems_rounds_and_refusals_are_counted(client: httpx.AsyncClient) -> None:
    await start(client, "print(1)")
    await start(client, "1 / 0")
    await start(client, "print(")
    await start(client, "get_wether(city='a')")
    await start(client, "while True:\n    pass", timeout=1000)
    await finish(client, await start(client, "for c in 'abc':\n    await get_weather(city=c)"), lambda *_: 1)
    cancelled = (await start(client, "await get_weather(city='a')")).json()["continuation_token"]
    await client.post("/exec/programmatic/cancel", json={"continuation_token": cancelled})
    await go_on(client, "no-token", result("call_001", 1))
    await client.post("/upload", files={"file": ("a.txt", b"12345")})
    found = await read(client)

    counted = {name: value for name, value in found.items() if value and "queue" not in name and "guest" not in name}
    assert counted == {
        'executions_total{status="cancelled"}': 1,
        'executions_total{status="failed"}': 1,
        'executions_total{status="finished"}': 2,
        'executions_total{status="rejected"}': 2,
        'executions_total{status="timeout"}': 1,
        'problems_total{kind="exception"}': 1,
        'problems_total{kind="syntax"}': 1,
        'problems_total{kind="unknown_tool"}': 1,
        'problems_total{kind="wall_clock"}': 1,
        "timeouts_total": 1,
        "rounds_total": 4,
        'execution_rounds_bucket{le="0"}': 5,
        'execution_rounds_bucket{le="1"}': 6,
        'execution_rounds_bucket{le="2"}': 6,
        **{f'execution_rounds_bucket{{le="{bound}"}}': 7 for bound in (5, 10, 20, 50, 100, "+Inf")},
        "execution_rounds_sum": 4,
        "execution_rounds_count": 7,
        'refusals_total{status="400"}': 1,
        "uploaded_bytes_total": 5,
    }


async def test_queue_time_and_what_is_paused_or_runs_now_are_told(served: Served) -> None:
    async with served(running=1) as client:
        token = (await start(client, "await get_weather(city='a')")).json()["continuation_token"]
        loops = [asyncio.create_task(start(client, "while True:\n    pass", timeout=1000)) for _ in range(2)]
        while not (now := await read(client))["running"]:
            await asyncio.sleep(0.01)
        await asyncio.gather(*loops)
        await go_on(client, token, result("call_001", 1))
        after = await read(client)

    assert (now["paused"], now["running"], now["guests"] >= 2) == (1, 1, True)
    assert (after["paused"], after["running"]) == (0, 0)
    assert after["queue_seconds_count"] == after['queue_seconds_bucket{le="+Inf"}'] == 4
    assert after["queue_seconds_sum"] > 0.1  # the second loop waited for the first
    assert after['queue_seconds_bucket{le="0.1"}'] < 4


async def test_the_memory_of_a_paused_guest_is_told(client: httpx.AsyncClient) -> None:
    before = await read(client)
    code = "held = bytearray(b'x' * 50_000_000)\nawait get_weather(city='a')\nprint(len(held))"
    token = (await start(client, code)).json()["continuation_token"]
    paused = await read(client)
    ended = await go_on(client, token, result("call_001", 1))
    while (after := await read(client))["guest_memory_bytes"] > 50_000_000:
        await asyncio.sleep(0.01)

    assert before["guest_memory_bytes"] < 50_000_000 < paused["guest_memory_bytes"]
    assert (ended.json()["stdout"], after["guest_memory_bytes"] < 50_000_000) == ("50000000\n", True)
