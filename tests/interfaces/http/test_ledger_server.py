"""The Redis server of the ledger under `/ready`: away, frozen, back."""

import asyncio
from pathlib import Path

import pytest

from tests.interfaces.http.conftest import KEYS, serve
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401
from toolfold.interfaces.http import Settings
from toolfold.ledger.redis.store import RedisLedger

pytestmark = pytest.mark.long

READY, NOT_READY = (200, {"status": "ready"}), (503, {"status": "not ready"})


async def test_a_server_whose_redis_is_away_is_not_ready_until_it_is_back(
    redis_server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = RedisLedger(redis_server.url)
    said = []
    async with serve(Settings(keys=KEYS), tmp_path / "files", ledger=ledger) as client:
        for change in (lambda: None, redis_server.kill, lambda: None, redis_server.start):
            change()
            answer = await client.get("/ready")
            said.append((answer.status_code, answer.json()))
    await ledger.close()

    assert said == [READY, NOT_READY, NOT_READY, READY]
    assert [record.getMessage() for record in caplog.records if "ready" in record.getMessage()] == [
        "not ready: the ledger's server cannot be reached",
        "ready again: the ledger is there",
    ]


async def test_a_frozen_redis_is_asked_once_for_all_who_want_to_know(redis_server: RedisServer, tmp_path: Path) -> None:
    ledger = RedisLedger(redis_server.url)
    async with serve(Settings(keys=KEYS), tmp_path / "files", ledger=ledger) as client:
        redis_server.freeze()
        frozen = await asyncio.gather(*(client.get("/ready") for _ in range(80)))
        redis_server.thaw()
        after = await client.get("/ready")
    with redis_server.client() as admin:
        connections = admin.info("clients")["connected_clients"]
    await ledger.close()

    assert {(answer.status_code, answer.text) for answer in frozen} == {(503, '{"status":"not ready"}')}
    assert (after.status_code, after.json()) == READY
    assert connections <= 3


async def test_an_end_that_redis_has_not_recorded_is_told_to_nobody(redis_server: RedisServer, tmp_path: Path) -> None:
    ledger = RedisLedger(redis_server.url)
    tools = [{"name": "ask", "parameters": {"type": "object", "properties": {}}}]
    start = {"code": "print(await ask())", "tools": tools}
    async with serve(Settings(keys=KEYS), tmp_path / "files", ledger=ledger) as client:
        begun = await client.post("/exec/programmatic", json=start, headers={"X-LibreChat-Code-Request-ID": "r"})
        results = [{"call_id": call["id"], "result": 1, "is_error": False} for call in begun.json()["tool_calls"]]
        more = {"continuation_token": begun.json()["continuation_token"], "tool_results": results}
        redis_server.kill()
        await client.post("/exec/programmatic/cancel", json={"request_id": "r"})
        away = await client.post("/exec/programmatic", json=more)
        redis_server.start()
        back = await client.post("/exec/programmatic", json=more)
        while back.status_code == 503:
            back = await client.post("/exec/programmatic", json=more)
    await ledger.close()

    assert (away.status_code, back.status_code, back.json()["error"]) == (503, 400, "Execution expired")
