"""Tokens that somebody made up, over the whole app: each refused in the same words, and nothing is told or run."""

import base64
import json
import random
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served, inside
from tests.interfaces.http.talk import go_on, result, start
from toolfold.interfaces.http import Settings
from toolfold.interfaces.http.access.continuation_tokens import Token, Tokens

KEY = b"k" * 32
CODE = 'print(await get_weather(city="a"))\nprint(await get_weather(city="b"))'
TWO = {"X-API-Key": KEYS["two"]}
INVALID = {
    "status": "error", "error": "Invalid continuation token", "stdout": "", "stderr": "Invalid continuation token\n",
}  # fmt: skip
EXPIRED = {**INVALID, "error": "Execution expired", "stderr": "Execution expired\n"}


async def test_every_forgery_is_refused_and_the_right_token_still_works(served: Served) -> None:
    tokens = Tokens(KEY)
    async with served(token_key=KEY) as client:
        first = (await start(client, CODE, session_id="mine", timeout=60000)).json()["continuation_token"]
        good = (await go_on(client, first, result("call_001", 1))).json()["continuation_token"]
        other = (await start(client, CODE, session_id="other")).json()["continuation_token"]
        theirs = (await start(client, CODE, session_id="mine", headers=TWO)).json()["continuation_token"]
        read = tokens.read(good)
        payload, signature = good.split(".")
        forged: dict[str, tuple[str, dict[str, Any]]] = {
            "altered payload": (f"{_flipped(payload)}.{signature}", {}),
            "altered signature": (f"{payload}.{_flipped(signature)}", {}),
            "another tenant in it": (f"{_with(payload, 4, 'two')}.{signature}", {"headers": TWO}),
            "a later end in it": (f"{_with(payload, 5, 2e9)}.{signature}", {}),
            "truncated": (good[:-1], {}),
            "half": (good[: len(good) // 2], {}),
            "no signature": (f"{payload}.", {}),
            "no payload": (f".{signature}", {}),
            "empty": ("", {}),
            "two in one": (f"{good}.{good}", {}),
            "signed with another key": (Tokens(b"x" * 32).sign(read), {}),
            "the signature of another token": (f"{payload}.{other.split('.')[1]}", {}),
            "replayed with other results": (first, {"results": [result("call_001", 2)]}),
            "replayed with the next call": (first, {"results": [result("call_002", 2)]}),
            "an earlier round's": (first, {"results": [result("call_001", 1), result("call_002", 1)]}),
            "a round that is not there yet": (tokens.sign(_replaced(read, round=3)), {}),
            "another session": (good, {"session_id": "other"}),
            "another session's": (other, {"session_id": "mine"}),
            "another tenant": (good, {"headers": TWO}),
            "another tenant's": (theirs, {}),
        }
        answers = {name: await _send(client, token, **how) for name, (token, how) in forged.items()}
        late = {
            "expired": await _send(client, tokens.sign(_replaced(read, expires_at=1.0))),
            "of an execution that is not there": await _send(
                client, tokens.sign(_replaced(read, execution_id="0" * 16))
            ),
        }
        late_and_foreign = await _send(client, tokens.sign(_replaced(read, expires_at=1.0)), headers=TWO)
        last = await go_on(client, good, result("call_002", 2))

    assert answers == dict.fromkeys(forged, (400, INVALID))
    assert late == dict.fromkeys(late, (400, EXPIRED))
    assert late_and_foreign == (400, INVALID)
    assert last.json()["stdout"] == "1\n2\n"


@pytest.mark.long
async def test_ten_thousand_mutated_tokens_are_ten_thousand_refusals(tmp_path: Path) -> None:
    seen: Counter[tuple[int, str]] = Counter()
    async with inside(Settings(keys=KEYS, token_key=KEY, refusals_per_second=1e9), tmp_path) as client:
        good = (await start(client, 'print(await get_weather(city="a"))', timeout=300_000)).json()["continuation_token"]
        for token in _mutated(good, 10_000):
            answer = await go_on(client, token, result("call_001", 1))
            seen[answer.status_code, answer.text] += 1
        last = await go_on(client, good, result("call_001", 5))

    assert seen == {(400, json.dumps(INVALID, separators=(",", ":"))): 10_000}
    assert last.json()["stdout"] == "5\n"


async def test_a_token_that_is_no_text_is_told_as_such(client: httpx.AsyncClient) -> None:
    answers = [
        await client.post(
            "/exec/programmatic",
            content=b'{"continuation_token": %b, "tool_results": []}' % token,
            headers={"Content-Type": "application/json"},
        )
        for token in (b'"\\ud800"', b"5", b"[]", b'"' + b"x" * 100_000 + b'"')
    ]

    assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [
        (400, "the body is not JSON; send one object as application/json"),
        (400, "continuation_token: input should be a valid string"),
        (400, "continuation_token: input should be a valid string"),
        (400, "Invalid continuation token"),
    ]


async def _send(
    client: httpx.AsyncClient, token: str, *, results: Any = None, **how: Any
) -> tuple[int, dict[str, Any]]:
    answer = await go_on(client, token, *(results or [result("call_002", 2)]), **how)
    return answer.status_code, answer.json()


def _flipped(text: str) -> str:
    at = len(text) // 2
    return text[:at] + ("B" if text[at] == "A" else "A") + text[at + 1 :]


def _with(payload: str, field: int, value: Any) -> str:
    fields = json.loads(base64.urlsafe_b64decode(payload + "=="))
    fields[field] = value
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def _replaced(token: Token, **fields: Any) -> Token:
    return Token(**{name: fields.get(name, getattr(token, name)) for name in Token.__slots__})


def _mutated(good: str, count: int) -> Iterator[str]:
    chance = random.Random(7)
    signs = string.printable + "é\0日"
    while count:
        text = list(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text))
            match chance.randrange(4):
                case 0:
                    text[at] = chance.choice(signs)
                case 1:
                    del text[at]
                case 2:
                    text.insert(at, chance.choice(signs))
                case _:
                    text = text[at:] + text[:at]
        if "".join(text) != good:
            count -= 1
            yield "".join(text)
