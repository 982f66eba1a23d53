"""A start that is sent twice with one `Idempotency-Key`: one execution, one answer."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served, serve
from tests.interfaces.http.talk import LIBRECHAT, WEATHER, finish, go_on, result, start
from toolfold import tool
from toolfold.interfaces.http import Settings
from toolfold.ledger.base import ExecutionHistory
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.tools.policy import Policy

KEY = {"Idempotency-Key": "order-17"}
TWO = {**KEY, "X-API-Key": KEYS["two"]}
# The number differs from one execution to the next.
CODE = 'import random\nn = random.random()\nprint(n, await get_weather(city="a"))'
ENDS = "import random\nprint(random.random())"


async def test_the_same_key_and_body_give_the_same_answer(client: httpx.AsyncClient) -> None:
    paused = [await start(client, CODE, headers=KEY) for _ in range(2)]
    ended = [await start(client, ENDS, headers={"Idempotency-Key": "b"}) for _ in range(2)]
    plain = [await client.post("/exec", json={"code": ENDS}, headers={"Idempotency-Key": "c"}) for _ in range(2)]
    without = [(await start(client, ENDS)).json()["stdout"] for _ in range(2)]
    body, _ = await finish(client, paused[1], lambda *_: "sun")
    again = await start(client, CODE, headers=KEY)

    assert paused[0].content == paused[1].content == again.content
    assert ended[0].content == ended[1].content
    assert plain[0].content == plain[1].content
    assert without[0] != without[1]
    assert body["stdout"].endswith(" sun\n")


async def test_requests_that_come_together_wait_for_the_first(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(start(client, CODE, headers=KEY, session_id="s") for _ in range(10)))
    metrics = (await client.get("/metrics")).text

    assert len({answer.content for answer in answers}) == 1
    assert "toolfold_http_rounds_total 1\n" in metrics


async def test_a_key_belongs_to_one_request_of_one_tenant(client: httpx.AsyncClient) -> None:
    first = await start(client, ENDS, headers=KEY)
    other = await start(client, "print(2)", headers=KEY)
    told = await start(client, "print(2)", headers={**KEY, **LIBRECHAT})
    elsewhere = await client.post("/exec", json={"code": ENDS, "tools": [WEATHER]}, headers=KEY)
    tenant = await start(client, ENDS, headers=TWO)

    text = "Idempotency-Key 'order-17' was sent with another request; take a new key"
    assert [(one.status_code, one.json()["error"]) for one in (other, elsewhere)] == [(422, text)] * 2
    assert (told.status_code, told.json()["stderr"]) == (200, f"{text}\n")
    assert tenant.json()["stdout"] != first.json()["stdout"]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é".encode()])
async def test_what_is_no_key_is_told(client: httpx.AsyncClient, key: Any) -> None:
    answer = await start(client, ENDS, headers={"Idempotency-Key": key})

    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "Idempotency-Key must be 1 to 255 visible ASCII characters; send such a key, or none",
    )


async def test_a_request_that_was_turned_away_leaves_its_key_unused(served: Served) -> None:
    async with served(paused=1) as client:
        full = (await start(client, CODE)).json()
        away = await start(client, CODE, headers=KEY)
        await go_on(client, full["continuation_token"], result("call_001", 1))
        taken = await start(client, CODE, headers=KEY)

    assert (away.status_code, taken.json()["status"]) == (429, "tool_call_required")


async def test_large_answers_are_forgotten_in_turn_and_their_keys_still_start_nothing_twice(served: Served) -> None:
    async def send(client: httpx.AsyncClient, name: str, code: str) -> httpx.Response:
        return await start(client, code, headers={"Idempotency-Key": name}, timeout=60000)

    large = ENDS + "\nprint('x' * 40_000)"
    names = ["a", "b", "c", "d"]
    async with served(remembered_bytes=100_000) as client:
        paused = await send(client, "p", CODE)
        first = [await send(client, name, large) for name in names]
        again = [await send(client, name, large) for name in names]
        paused_again = await send(client, "p", CODE)
        others = [await send(client, name, "print(2)") for name in ("d", "b")]
        body, _ = await finish(client, paused_again, lambda *_: "sun")

    assert [one.json() for one in again] == [one.json() for one in first]
    assert (paused_again.content, body["status"]) == (paused.content, "completed")
    # The newest is held, and another body is refused; an older one made room, so its key may be used again.
    assert [one.status_code for one in others] == [422, 200]


@pytest.mark.parametrize("has_gone_on", [False, True])
async def test_it_holds_across_a_restart(tmp_path: Path, has_gone_on: bool) -> None:
    settings = Settings(keys=KEYS, token_key=b"k" * 32)

    async def life() -> tuple[dict[str, Any], dict[str, Any], httpx.Response]:
        ledger = open_ledger(str(tmp_path / "ledger.sqlite"))
        async with serve(settings, tmp_path / "files", ledger=ledger) as client:
            paused = (await start(client, CODE, headers=KEY, timeout=60000)).json()
            ended = (await start(client, ENDS, headers={"Idempotency-Key": "b"})).json()
            third = await start(client, CODE, headers={"Idempotency-Key": "c"})
            if has_gone_on and third.json().get("status") == "tool_call_required":
                await go_on(client, third.json()["continuation_token"], result("call_001", 3))
        await ledger.close()
        return paused, ended, third

    first, ended, _ = await life()
    second, ended_again, third = await life()
    ledger = open_ledger(str(tmp_path / "ledger.sqlite"))
    async with serve(settings, tmp_path / "files", ledger=ledger) as client:
        body, rounds = await finish(client, second, lambda *_: "sun")
        old = await go_on(client, first["continuation_token"], result("call_001", "rain"))
    await ledger.close()

    assert [first[key] for key in ("session_id", "tool_calls")] == [second[key] for key in ("session_id", "tool_calls")]
    assert ended == ended_again
    assert third.json()["status"] == "tool_call_required"
    assert (body["status"], rounds, old.json()["error"]) == ("completed", 1, "Execution expired")


@pytest.mark.parametrize("way", ["ended", "paused again", "answered in part", "cancelled", "approved"])
async def test_it_gives_the_first_answer_after_a_restart_whatever_has_happened_since(way: str, tmp_path: Path) -> None:
    settings = Settings(keys=KEYS, token_key=b"k" * 32)
    code = {
        "paused again": "for city in 'ab':\n    print(await get_weather(city=city))",
        "answered in part": "print(await asyncio.gather(get_weather(city='a'), get_weather(city='b')))",
        "approved": "print(await write(row=1), await get_weather(city='a'))",
    }.get(way, CODE)
    answers: list[bytes] = []
    statuses: list[str] = []

    @tool
    def write(row: int) -> int:
        """Write a row."""
        return row

    async def go_on_in(client: httpx.AsyncClient, token: str) -> str:
        if way == "cancelled":
            return str((await client.post("/exec/programmatic/cancel", json={"continuation_token": token})).status_code)
        if way == "approved":
            body = {"continuation_token": token, "decisions": [{"call_id": "call_001", "approved": True}]}
            return str((await client.post("/exec/programmatic", json=body)).json()["status"])
        return str((await go_on(client, token, result("call_001", "sun"))).json()["status"])

    for life in range(3):
        ledger = open_ledger(str(tmp_path / "ledger.sqlite"))
        options = {"ledger": ledger, "tools": [write], "policy": Policy(ask=["write"])}
        async with serve(settings, tmp_path / "files", **options) as client:
            answers.append((await start(client, code, headers=KEY)).content)
            if life == 0:
                statuses.append(await go_on_in(client, json.loads(answers[0])["continuation_token"]))
                answers.append((await start(client, code, headers=KEY)).content)
        await ledger.close()

    assert statuses == [{"ended": "completed", "cancelled": "202"}.get(way, "tool_call_required")]
    assert answers == [answers[0]] * 4
    assert json.loads(answers[0])["status"] == ("approval_required" if way == "approved" else "tool_call_required")


class Unseen(SqliteLedger):
    """Hides the record of an execution from the first who looks: another replica writes it just after that."""

    is_hidden = True

    async def load(self, execution_id: str) -> ExecutionHistory | None:
        if self.is_hidden:
            self.is_hidden = False
            return None
        return await super().load(execution_id)


async def test_a_start_that_another_server_began_just_now_gets_its_answer(tmp_path: Path) -> None:
    settings = Settings(keys=KEYS, token_key=b"k" * 32)
    answers = []
    for kind in (SqliteLedger, Unseen):
        ledger = kind(tmp_path / "ledger.sqlite")
        async with serve(settings, tmp_path / "files", ledger=ledger) as client:
            answers += [
                (await start(client, code, headers={"Idempotency-Key": str(len(code))}, session_id="s")).json()
                for code in (ENDS, CODE)
            ]
        await ledger.close()

    assert [body["status"] for body in answers[:2]] == ["completed", "tool_call_required"]
    assert answers[2:] == answers[:2]
