"""Starts, answers, duplicates, parts, cancels and restarts in any order, against a model of a few lines."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doors.http.conftest import KEYS, serve
from tests.doors.http.talk import go_on, result, start
from toolfold.doors.http import Settings
from toolfold.ledger.open import open_ledger

CODE = """
total = 0
for i in range(3):
    a, b = await asyncio.gather(get_weather(city=f"{i}a"), get_weather(city=f"{i}b"))
    total = total * 10 + a + b
print(total)
"""
INVALID = "Invalid continuation token"


class Model:
    """What one execution must do: two calls a round, three rounds, more where only one call is answered."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.tokens: list[tuple[str, list[Any], dict[str, Any]]] = []
        self.is_over = False
        self.is_cancelled = False

    async def answer(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        calls = self.body["tool_calls"]
        some = calls if chance.random() < 0.6 or len(calls) == 1 else [chance.choice(calls)]
        results = [result(call, int(call["input"]["city"][0]) + 1) for call in some]
        token = self.body["continuation_token"]

        got = (await go_on(client, token, *results)).json()

        self.tokens.append((token, results, got))
        rest = [call["id"] for call in calls if call not in some]
        if got["status"] == "tool_call_required":
            open_ids = [call["id"] for call in got["tool_calls"]]
            assert open_ids == rest if rest else len(open_ids) == 2
        else:
            assert (got["status"], got["stdout"], rest) == ("completed", "246\n", [])
            self.is_over = True
        self.body = got

    async def repeat(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        if not self.tokens:
            return
        at = chance.randrange(len(self.tokens))
        token, results, expected = self.tokens[at]
        got = (await go_on(client, token, *results)).json()
        is_last = at == len(self.tokens) - 1
        if is_last and not self.is_cancelled:
            # A new server signs the same pause again, so its token may differ in nothing else.
            same = [one.get(key) for one in (got, expected) for key in ("status", "stdout", "tool_calls")]
            assert same[:3] == same[3:]
        else:
            assert got["error"] in (INVALID, "Execution expired")
        other = await go_on(client, token, *({**one, "result": 99} for one in results))
        assert other.json().get("error") in (INVALID, "Execution expired")

    async def cancel(self, client: httpx.AsyncClient) -> None:
        await client.post("/exec/programmatic/cancel", json={"continuation_token": self.body["continuation_token"]})
        self.is_over = self.is_cancelled = True


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
async def test_any_order_of_requests_keeps_to_the_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings = Settings(keys=KEYS, token_key=b"k" * 32)
    models: list[Model] = []
    for _ in range(3):
        ledger = open_ledger(str(tmp_path / "ledger.sqlite"))
        async with serve(settings, tmp_path / "files", ledger=ledger) as client:
            for _step in range(25):
                alive = [model for model in models if not model.is_over]
                match chance.choices(["start", "answer", "repeat", "cancel"], [2, 6, 2, 0.5])[0]:
                    case "start":
                        models.append(Model((await start(client, CODE)).json()))
                    case "answer" if alive:
                        await chance.choice(alive).answer(client, chance)
                    case "repeat" if models:
                        await chance.choice(models).repeat(client, chance)
                    case "cancel" if alive:
                        await chance.choice(alive).cancel(client)
        await ledger.close()
        await asyncio.sleep(0)

    assert any(model.is_over and not model.is_cancelled for model in models)
