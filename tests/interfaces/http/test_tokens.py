"""Tokens that are altered, old, another's or sent again: each refused, nothing run twice, nothing told."""

import asyncio
import base64
import os
import random
import stat
import string
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served
from tests.interfaces.http.talk import go_on, result, start
from toolfold.errors import UsageError
from toolfold.interfaces.http.access.continuation_tokens import Token, Tokens, load_or_create_key
from toolfold.interfaces.http.outcome_bodies import Refusal

KEY = b"k" * 32
TOKEN = Token("e1", 3, 7, "session", "one", 2e9)


def test_a_token_is_read_as_it_was_signed() -> None:
    assert Tokens(KEY).read(Tokens(KEY).sign(TOKEN)) == TOKEN


def test_a_token_of_the_first_release_is_read() -> None:
    signed = "WyJlMSIsMyw3LCJzZXNzaW9uIiwib25lIiwyMDAwMDAwMDAwLjBd.t8DsZpEJZFZU6_e0l-it44KZWd5IeRHGidy_i320vUI"

    assert Tokens(KEY).read(signed) == TOKEN


def test_ten_thousand_mutated_tokens_are_refused() -> None:
    tokens, good = Tokens(KEY), Tokens(KEY).sign(TOKEN)
    chance = random.Random(5)
    signs = string.printable + "é\ud800\0"
    accepted, refusals = [], set()
    for _ in range(10_000):
        text = list(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text))
            match chance.randrange(3):
                case 0:
                    text[at] = chance.choice(signs)
                case 1:
                    del text[at]
                case _:
                    text.insert(at, chance.choice(signs))
        mutated = "".join(text)
        if mutated == good:
            continue
        try:
            tokens.read(mutated)
            accepted.append(mutated)
        except Refusal as refusal:
            refusals.add((refusal.status, refusal.text))

    assert (accepted, refusals) == ([], {(400, "Invalid continuation token")})


@pytest.mark.parametrize("text", ["", ".", "a.b", "." * 5000, "x" * 100_000, "\ud800.\ud800"])
def test_what_is_no_token_at_all_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        Tokens(KEY).read(text)


def test_a_token_of_another_key_is_refused() -> None:
    with pytest.raises(Refusal):
        Tokens(KEY).read(Tokens(b"x" * 32).sign(TOKEN))


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    first = load_or_create_key(tmp_path / "key")
    second = load_or_create_key(tmp_path / "key")
    mode = stat.S_IMODE(os.stat(tmp_path / "key").st_mode)

    assert (first == second, len(first), mode) == (True, 32, 0o600)


def test_servers_that_start_at_once_have_one_key(tmp_path: Path) -> None:
    for round_number in range(50):
        path = tmp_path / str(round_number)
        with ThreadPoolExecutor(8) as threads:
            keys = set(threads.map(load_or_create_key, [path] * 8))

        assert (keys, list(tmp_path.glob(".*"))) == ({path.read_bytes()}, [])


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")

    with pytest.raises(UsageError) as caught:
        load_or_create_key(tmp_path / "key")

    assert str(caught.value) == "the key file 'key' is damaged; remove it, and open executions end"


def test_a_short_key_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        Tokens(b"short")

    assert str(caught.value) == "the key for continuation tokens is shorter than 16 bytes; give a longer one"


async def test_the_same_continuation_gives_the_same_answer_and_runs_once(client: httpx.AsyncClient) -> None:
    first = (await start(client, 'a = await get_weather(city="a")\nprint(a, await get_weather(city="b"))')).json()
    token = first["continuation_token"]

    answers = await asyncio.gather(*(go_on(client, token, result("call_001", 1)) for _ in range(10)))
    other = await go_on(client, token, result("call_001", 2))
    last = await go_on(client, answers[0].json()["continuation_token"], result("call_002", 3))
    again = await go_on(client, answers[0].json()["continuation_token"], result("call_002", 3))
    oldest = await go_on(client, token, result("call_001", 1))

    assert len({answer.text for answer in answers}) == 1
    assert (other.status_code, other.json()["error"]) == (400, "Invalid continuation token")
    assert (last.json()["stdout"], last.text == again.text) == ("1 3\n", True)
    assert oldest.json()["error"] == "Invalid continuation token"


async def test_a_token_is_of_no_use_to_another_tenant_or_session(client: httpx.AsyncClient) -> None:
    first = (await start(client, 'print(await get_weather(city="a"))', session_id="mine")).json()
    token = first["continuation_token"]

    stolen = await go_on(client, token, result("call_001", 1), headers={"X-API-Key": KEYS["two"]})
    moved = await go_on(client, token, result("call_001", 1), session_id="other")
    mine = await go_on(client, token, result("call_001", 1), session_id="mine")

    assert [answer.json()["error"] for answer in (stolen, moved)] == ["Invalid continuation token"] * 2
    assert mine.json()["stdout"] == "1\n"


async def test_a_signed_token_of_another_round_or_of_nothing_is_refused(served: Served) -> None:
    tokens = Tokens(KEY)
    async with served(token_key=KEY) as client:
        first = (await start(client, 'print(await get_weather(city="a"))', session_id="s")).json()
        good = tokens.read(first["continuation_token"])
        ahead = Token(good.execution_id, 2, 0, "s", "one", good.expires_at)
        nothing = Token("nobody", 1, 0, "s", "one", time.time() + 9)
        old = Token(good.execution_id, 1, 0, "s", "one", time.time() - 1)
        answers = [await go_on(client, tokens.sign(one), result("call_001", 1)) for one in (ahead, nothing, old)]

    assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [
        (400, "Invalid continuation token"),
        (400, "Execution expired"),
        (400, "Execution expired"),
    ]


def test_a_payload_cannot_be_swapped() -> None:
    payload, signature = Tokens(KEY).sign(TOKEN).split(".")
    text = base64.urlsafe_b64decode(payload + "==").replace(b'"one"', b'"two"')
    forged = base64.urlsafe_b64encode(text).decode().rstrip("=")

    with pytest.raises(Refusal):
        Tokens(KEY).read(f"{forged}.{signature}")
