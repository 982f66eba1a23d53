"""Bash programs over MCP: told of and taken only where the config allows them, and otherwise like Python programs."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.interfaces.mcp.conftest import ERAS, run, texts, until
from tests.interfaces.mcp.test_yielding import DONE, RUNNING, SOON, Gate, id_in, plain, wait
from toolfold.engines.process import shell_commands
from toolfold.interfaces.mcp.offered_tools import DescriptionWriter
from toolfold.interfaces.mcp.prompt_texts import CONTRACT, DESCRIPTION
from toolfold.interfaces.tool_prompt import BASH_RULE
from toolfold.tools.policy import Policy

BOTH = ("python", "bash")
FAILED = "[Script execution failed]\n"


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def bash(client: Client, code: str, **arguments: Any) -> types.CallToolResult:
    return await run(client, code, language="bash", **arguments)


async def test_models_are_told_of_bash_only_where_the_config_allows_it_and_the_engine_runs_it(open_client) -> None:
    async def offer(**options: Any) -> types.Tool:
        async with open_client(add, **options) as client:
            [tool, *_] = (await client.list_tools()).tools
        return tool

    usual, python, both = await offer(), await offer(languages=("python",)), await offer(languages=BOTH)
    elsewhere = await offer(languages=BOTH, engine="monty")
    contract = await offer(languages=BOTH, describing=DescriptionWriter(is_contract=True))

    assert usual == python == elsewhere
    assert usual.description is not None
    assert both.description == usual.description.replace(DESCRIPTION, f"{DESCRIPTION} {BASH_RULE}")
    assert both.input_schema["properties"] == {
        **usual.input_schema["properties"], "language": {"enum": ["python", "bash"]}
    }  # fmt: skip
    assert both.input_schema["required"] == ["code"]
    assert contract.description == f"{CONTRACT} {BASH_RULE}"


@pytest.mark.parametrize("mode", ERAS)
async def test_tools_are_commands_and_what_they_say_of_failures_is_shown(open_client, mode) -> None:
    def fail() -> None:
        """Fail."""
        raise ValueError("no luck")

    async with open_client(add, fail, languages=BOTH, mode=mode) as client:
        piped = await bash(client, 'for n in 1 2; do add "{\\"a\\":$n,\\"b\\":1}" | jq \'. * 10\'; done')
        went_on = await bash(client, "fail '{}'\necho status $?")
        ended = await bash(client, "set -e\necho begun\nfail '{}'\necho never")
        rejected = await bash(client, "echo begun\nadd '{\"a\":1}'")

    assert texts(piped) == [f"{DONE}20\n30\n"]
    assert texts(went_on) == [f"{DONE}status 1\n", "stderr:\n'fail' failed: no luck\n"]
    assert texts(ended) == [
        f"{FAILED}'fail' failed: no luck\nthe program exited with status 1", "Output before the failure:\nbegun\n"
    ]  # fmt: skip
    assert texts(rejected) == [
        f"{FAILED}line 2: 'add' needs the argument 'b'\nadd '{{\"a\":1}}'\n^\n"
        "The program was not started and no tool was called. Correct it and send it again."
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ERAS)
async def test_calls_of_background_jobs_are_asked_for_and_the_program_goes_on(open_client, mode) -> None:
    asked: list[str] = []

    async def answer(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": '"a": 1' not in params.message})

    options = {"policy": Policy(ask=["add"]), "mode": mode, "elicitation_callback": answer}
    async with open_client(add, languages=BOTH, **options) as client:
        code = 'for n in 0 1 2; do add "{\\"a\\":$n,\\"b\\":5}" & done 2>&1 | sort\nwait'
        result = await bash(client, code)

    assert texts(result) == [f"{DONE}'add' was denied: the user said no\n5\n7\n"]
    assert sorted(asked) == [f'A program wants to call add with {{"a": {n}, "b": 5}}' for n in range(3)]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_program_that_takes_longer_yields_and_is_waited_for_or_cancelled(open_client, mode) -> None:
    gate = Gate()
    async with open_client(gate.gate, languages=BOTH, yielding=SOON, mode=mode) as client:
        first = await bash(client, "gate '{}'\necho two")
        second = await bash(client, "gate '{\"n\":2}'\nsleep 1000")
        await until(lambda: gate.calls == 2)
        waiting = await wait(client, id_in(first))
        gate.opened.set()
        last = await wait(client, id_in(first), yield_after_seconds=60)
        cancelled = await wait(client, id_in(second), cancel=True)

    rest = "Running for N s; it waits for gate. Call wait_program with execution_id ID; do not run it again."
    assert plain(waiting) == [f"{RUNNING}(no output yet)", rest]
    assert texts(last) == [f"{DONE}0\ntwo\n"]
    assert texts(cancelled)[0] == f"{FAILED}Cancelled: the program was stopped"


async def test_a_session_has_the_files_of_programs_in_both_languages(open_client) -> None:
    async with open_client(languages=BOTH) as client:
        await run(client, "open('a.csv', 'w').write('x\\n1\\n2\\n')", session="s")
        counted = await bash(client, "wc -l < a.csv; echo 3 >> a.csv", session="s")
        read = await run(client, "print(open('a.csv').read().split())", session="s")

    assert (texts(counted), texts(read)) == ([f"{DONE}3\n"], [f"{DONE}['x', '1', '2', '3']\n"])


OFF = "language 'bash' is turned off here; write Python, or set execution.languages: [python, bash]"
NOT_HERE = "this engine runs no bash programs here; write Python, or see 'toolfold doctor'"


@pytest.mark.parametrize(
    ("options", "language", "says"),
    [
        ({}, "bash", OFF),
        ({"languages": ("python",)}, "bash", OFF),
        ({"languages": BOTH, "engine": "monty"}, "bash", NOT_HERE),
        ({"languages": BOTH}, "ruby", "language must be 'python' or 'bash', got 'ruby'; nothing was called"),
        ({"languages": BOTH}, ["bash"], "language must be 'python' or 'bash', got ['bash']; nothing was called"),
    ],
)
async def test_a_language_that_cannot_be_had_gets_one_clear_line(open_client, options, language, says) -> None:
    async with open_client(**options) as client:
        refused = await run(client, "echo", language=language)
        usual = await run(client, "print(1)", language="python")

    assert (texts(refused), refused.is_error) == ([f"{FAILED}UsageError: {says}"], True)
    assert texts(usual) == [f"{DONE}1\n"]


async def test_a_machine_without_jq_names_the_packages_and_runs_python(open_client, monkeypatch) -> None:
    monkeypatch.setattr(shell_commands, "COMMANDS", [name for name in shell_commands.COMMANDS if name != "jq"])
    async with open_client(languages=BOTH) as client:
        refused, usual = await asyncio.gather(bash(client, "echo"), run(client, "print(1)"))

    assert texts(refused) == [f"{FAILED}SandboxUnavailable: {shell_commands.refusal()}"]
    assert texts(usual) == [f"{DONE}1\n"]
