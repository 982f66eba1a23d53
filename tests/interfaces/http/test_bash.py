"""Bash programs over HTTP: for LibreChat by default, for others where the config allows it; tools are shell functions."""

from pathlib import Path

import httpx
import pytest

from tests.interfaces.http.talk import LIBRECHAT, WEATHER, finish, start
from toolfold.config import parse_config
from toolfold.interfaces.http.server_setup import open_app

TURNED_OFF = "lang 'bash' is turned off here; set execution.languages: [python, bash], or send 'py'"


async def test_calls_of_background_jobs_are_one_round(client: httpx.AsyncClient) -> None:
    code = (
        'for c in a b c; do get_weather "{\\"city\\":\\"$c\\"}" & done | sort\n'
        'wait\nx=$(get_weather \'{"city":"d"}\')\necho "$x"'
    )

    first = await start(client, code, lang="bash", headers=LIBRECHAT)
    body, rounds = await finish(client, first, lambda _, arguments: arguments["city"], headers=LIBRECHAT)

    assert (body["status"], body["stdout"], rounds) == ("completed", '"a"\n"b"\n"c"\n"d"\n', 2)


async def test_a_program_without_tools_has_arguments_and_leaves_files(client: httpx.AsyncClient) -> None:
    body = {"lang": "bash", "code": 'echo "$1-$2" > out.txt\ncat out.txt', "args": ["a b", "c"]}

    answer = (await client.post("/exec", json=body, headers=LIBRECHAT)).json()

    assert (answer["stdout"], answer["stderr"], [file["name"] for file in answer["files"]]) == (
        "a b-c\n",
        "",
        ["out.txt"],
    )


async def test_a_failed_program_is_told_with_its_status_and_what_it_printed(client: httpx.AsyncClient) -> None:
    answer = (await start(client, "echo out; echo err >&2; exit 3", lang="bash", headers=LIBRECHAT)).json()

    assert (answer["status"], answer["error"]) == ("error", "Sandbox exited with code 3")
    assert answer["stderr"] == "the program exited with status 3\nerr\n\nstdout before the error:\nout\n"


async def test_other_clients_need_the_config(client: httpx.AsyncClient) -> None:
    answer = await client.post("/exec", json={"lang": "bash", "code": "echo"})

    assert (answer.status_code, answer.json()["error"]) == (400, TURNED_OFF)


async def test_an_engine_without_bash_says_so(tmp_path: Path) -> None:
    config = f"engine: monty\nhttp: {{files: {tmp_path}}}\nexecution: {{languages: [python, bash]}}\n"
    app, ledger = await open_app(parse_config(f"{config}ledger: {{where: memory}}"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        answer = await client.post("/exec", json={"lang": "bash", "code": "echo"})
    await ledger.close()

    assert answer.json()["error"] == "the engine 'monty' runs no bash programs here; see 'toolfold doctor'"


OTHERS = "no tool of this program has that name, they are: get_weather, search_tools"
THEIRS = "; a client may send only the tools that it sees called as commands, or that its model lists"


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("get_forecast '{}'", f"bash: line 3: get_forecast: command not found; {OTHERS}"),
        ("forecast '{}'", f"bash: line 3: forecast: command not found; {OTHERS}"),
        ("printf '{}\\n' | xargs -d '\\n' get_forecast", f"bash: get_forecast: command not found; {OTHERS}"),
        ("timeout 9 get_forecast '{}'", f"bash: get_forecast: command not found; {OTHERS}"),
        (
            "python3 -c 'import tools; tools.get_forecast()' 2>&1 | tail -1 >&2",
            "AttributeError: no tool 'get_forecast'; the tools of this program are: get_weather, search_tools",
        ),
        (
            "python3 -c 'from tools import get_forecast' 2>&1 | tail -1 >&2",
            "ImportError: no tool 'get_forecast'; the tools of this program are: get_weather, search_tools",
        ),
    ],
    ids=["function", "short name", "xargs", "timeout", "python3", "python3 import"],
)
async def test_a_call_of_a_tool_that_the_client_did_not_send_says_so(
    client: httpx.AsyncClient, code: str, shown: str
) -> None:
    guard = ': &\nwait "$!"\n'

    answer = (await start(client, f"{guard}{code}\ntrue", WEATHER, lang="bash", headers=LIBRECHAT)).json()

    assert (answer["status"], answer["stdout"], answer["stderr"]) == ("completed", "", f"{shown}{THEIRS}\n")
