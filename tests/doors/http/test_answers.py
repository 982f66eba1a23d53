"""What an answer says of output that did not fit, or that came before the end."""

import httpx
import pytest

from tests.doors.http.talk import LIBRECHAT, go_on, result, start

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
