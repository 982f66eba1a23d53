"""What an answer says of output that did not fit, or that came before the end."""

import time
from pathlib import Path

import httpx
import pytest

from tests.interfaces.http.conftest import KEYS, Served, inside
from tests.interfaces.http.talk import LIBRECHAT, go_on, result, start, until
from toolfold.interfaces.http import Settings
from toolfold.ledger.ledger_factory import open_ledger

LIMIT = 64 * 1024
MISSING = f"\n... (truncated) {200_000 - LIMIT} more bytes; write long output to a file in /mnt/data"


async def test_stdout_beyond_the_limit_says_how_much_is_missing(client: httpx.AsyncClient) -> None:
    first = (await start(client, "await get_weather(city='a')\nprint('x' * 200_000, end='')")).json()
    body = (await go_on(client, first["continuation_token"], result("call_001", 1))).json()

    assert (body["status"], body["stdout"]) == ("completed", "x" * LIMIT + MISSING)


async def test_stderr_and_plain_executions_say_it_too(client: httpx.AsyncClient) -> None:
    code = "import sys\nfor stream in (sys.stdout, sys.stderr):\n    print('x' * 200_000, end='', file=stream)"

    body = (await client.post("/exec", json={"lang": "py", "code": code})).json()

    assert [body["stdout"], body["stderr"]] == ["x" * LIMIT + MISSING] * 2


@pytest.mark.parametrize("headers", [{}, LIBRECHAT])
async def test_a_failed_program_says_how_much_of_its_stdout_is_missing(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    body = (await start(client, "print('x' * 200_000, end='')\n1 / 0", headers=headers)).json()

    shown = body["stderr"] if headers else body["stdout"]
    assert (body["status"], shown.endswith("x" * LIMIT + MISSING)) == ("error", True)


async def test_the_round_that_is_one_too_many_brings_the_output_so_far(served: Served) -> None:
    code = (
        "import sys\nfor n in range(3):\n    print(n)\n    print(-n, file=sys.stderr)\n    await get_weather(city='a')"
    )
    async with served(max_rounds=2) as client:
        body = (await start(client, code)).json()
        for call_id in ("call_001", "call_002"):
            answer = await go_on(client, body["continuation_token"], result(call_id, 1))
            body = answer.json()

    text = "Exceeded maximum round trips (2)"
    assert (answer.status_code, body.pop("session_id") != "") == (400, True)
    assert body == {"status": "error", "error": text, "stdout": "0\n1\n2\n", "stderr": f"{text}\n0\n-1\n-2\n"}


@pytest.mark.parametrize("is_told_in_time", [True, False])
async def test_time_that_ran_out_in_a_pause_brings_the_output_so_far(tmp_path: Path, is_told_in_time: bool) -> None:
    ahead = 0.0
    settings = Settings(keys=KEYS, token_key=b"k" * 32)
    ledger = open_ledger(str(tmp_path / "ledger.sqlite"))
    async with inside(settings, tmp_path, ledger=ledger, clock=lambda: time.time() + ahead) as client:
        paused = (await start(client, "print('so far')\nawait get_weather(city='a')", timeout=1_000)).json()
        if is_told_in_time:
            await until(client, "paused", 0)
        ahead = 2.0
        late = [await go_on(client, paused["continuation_token"], result("call_001", 1)) for _ in range(2)]
        other = await go_on(
            client, paused["continuation_token"], result("call_001", 1), headers={"X-API-Key": KEYS["two"]}
        )
    # Also at the next process, which has it from the ledger.
    async with inside(settings, tmp_path, ledger=ledger, clock=lambda: time.time() + ahead) as client:
        late.append(await go_on(client, paused["continuation_token"], result("call_001", 1)))
    await ledger.close()

    text = "Execution expired"
    body = {"status": "error", "error": text, "stdout": "so far\n", "stderr": f"{text}\n"}
    assert [(one.status_code, one.json()) for one in late] == [(400, {**body, "session_id": paused["session_id"]})] * 3
    assert other.json()["error"] == "Invalid continuation token"


async def test_an_expired_token_of_an_execution_that_ended_brings_no_output(tmp_path: Path) -> None:
    ahead = 0.0
    async with inside(Settings(keys=KEYS), tmp_path, clock=lambda: time.time() + ahead) as client:
        paused = (await start(client, "await get_weather(city='a')\nprint('done')")).json()
        await go_on(client, paused["continuation_token"], result("call_001", 1))
        ahead = 61.0
        late = await go_on(client, paused["continuation_token"], result("call_001", 1))

    assert (late.json()["error"], late.json()["stdout"]) == ("Execution expired", "")
