"""Whose time counts: LibreChat's timeout is its program's own, everyone else's that of the whole execution."""

import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.interfaces.http.conftest import KEYS, inside
from tests.interfaces.http.talk import LIBRECHAT, go_on, result, start
from toolfold.interfaces.http import Settings
from toolfold.interfaces.http.access.continuation_tokens import Tokens
from toolfold.ledger.ledger_factory import open_ledger

KEY = b"k" * 32
SETTINGS = Settings(keys=KEYS, token_key=KEY)
THREE = "for city in 'abc':\n    print(await get_weather(city=city))"
ENDLESS = "print('so far')\nawait get_weather(city='a')\nwhile True:\n    pass"


class Now:
    """A clock that a test moves on."""

    ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_seconds


async def slow_rounds(folder: Path, headers: dict[str, str], seconds: float) -> list[dict[str, Any]]:
    """Every answer of a program with three calls, each of which takes its client so long."""
    now = Now()
    async with inside(SETTINGS, folder, clock=now) as client:
        bodies = [(await start(client, THREE, headers=headers, timeout=15_000)).json()]
        while bodies[-1]["status"] == "tool_call_required":
            now.ahead_seconds += seconds
            (call,) = bodies[-1]["tool_calls"]
            answer = await go_on(client, bodies[-1]["continuation_token"], result(call, call["id"]), headers=headers)
            bodies.append(answer.json())
    return bodies


async def test_three_slow_calls_of_librechat_do_not_use_up_its_timeout(tmp_path: Path) -> None:
    bodies = await slow_rounds(tmp_path, LIBRECHAT, 6)

    assert (len(bodies), bodies[-1]["status"]) == (4, "completed")
    assert bodies[-1]["stdout"] == "call_001\ncall_002\ncall_003\n"


async def test_they_use_up_the_timeout_of_everyone_else(tmp_path: Path) -> None:
    bodies = await slow_rounds(tmp_path, {}, 6)

    assert (len(bodies), bodies[-1]["error"]) == (4, "Execution expired")


async def test_they_use_up_the_longest_time_of_an_execution(tmp_path: Path) -> None:
    bodies = await slow_rounds(tmp_path, LIBRECHAT, 101)

    assert (len(bodies), bodies[-1]["status"]) == (4, "error")
    assert bodies[-1]["stderr"].startswith("Execution expired\n")


async def test_the_time_that_a_program_of_librechat_runs_counts_over_its_rounds(tmp_path: Path) -> None:
    async with inside(SETTINGS, tmp_path) as client:
        first = (await start(client, ENDLESS, headers=LIBRECHAT, timeout=1_000)).json()
        body = (await go_on(client, first["continuation_token"], result("call_001", 1), headers=LIBRECHAT)).json()

    assert (body["status"], body["error"]) == ("error", "Time limit exceeded")
    assert body["stderr"].startswith("Execution timeout\n")
    assert "so far" in body["stderr"]


@pytest.mark.parametrize("is_taken", [False, True])
async def test_another_process_goes_on_with_the_time_that_is_left(tmp_path: Path, is_taken: bool) -> None:
    code = "await get_weather(city='a')\n" * 2 + ENDLESS
    ledgers = [open_ledger(str(tmp_path / "ledger.sqlite")) for _ in range(2)]
    async with inside(SETTINGS, tmp_path, ledger=ledgers[0]) as client:
        first = (await start(client, code, headers=LIBRECHAT, timeout=300_000)).json()
        second = (await go_on(client, first["continuation_token"], result("call_001", 1), headers=LIBRECHAT)).json()
    tokens = Tokens(KEY)
    before, after = tokens.read(first["continuation_token"]), tokens.read(second["continuation_token"])
    # As if it had used up all but a moment of its time, which nobody wants to wait for.
    spent = tokens.sign(replace(before if is_taken else after, seconds_left=0.05))
    async with inside(SETTINGS, tmp_path, ledger=ledgers[1]) as client:
        body = {"continuation_token": spent, "tool_calls": second["tool_calls"]}
        if is_taken:
            body = (await go_on(client, spent, result("call_001", 1), headers=LIBRECHAT)).json()
        left = tokens.read(body["continuation_token"]).seconds_left
        for call_id in ("call_002", "call_003"):
            body = (await go_on(client, body["continuation_token"], result(call_id, 1), headers=LIBRECHAT)).json()
            if body["status"] == "error":
                break
    for ledger in ledgers:
        await ledger.close()

    assert before.seconds_left is not None
    assert after.seconds_left is not None
    assert 0 < after.seconds_left < before.seconds_left < 300
    assert (left, body["error"]) == (0.05, "Time limit exceeded")


async def test_a_program_s_own_timers_run_out_while_the_client_works(tmp_path: Path) -> None:
    code = """
import asyncio
try:
    print(await asyncio.wait_for(get_weather(city='a'), 1))
except TimeoutError:
    print("gave up")
"""
    async with inside(SETTINGS, tmp_path) as client:
        paused = (await start(client, code)).json()
        # Longer than the program would wait.
        await start(client, "import time\ntime.sleep(1.2)")
        body = (await go_on(client, paused["continuation_token"], result("call_001", "late"))).json()

    assert (body["status"], body["stdout"]) == ("completed", "gave up\n")
