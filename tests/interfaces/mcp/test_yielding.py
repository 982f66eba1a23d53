"""Programs that outlast a request: they yield what they printed, and `wait_program` gets the rest, once."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.interfaces.mcp.conftest import ERAS, descendants, run, texts, until
from tests.interfaces.mcp.test_stdio import server
from toolfold.errors import UsageError
from toolfold.interfaces.mcp.outcome_results import TRUNCATED
from toolfold.interfaces.mcp.program_tasks import (
    YieldPolicy,
    check_id,
    new_id,
    remaining_seconds,
    yield_policy_of,
)
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Limits
from toolfold.tools.policy import Policy

SOON = YieldPolicy(0.4)
DONE = "[Script executed successfully]\n"
RUNNING = "[Script still running]\n"


class Gate:
    """A tool that returns when the test says so."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.calls = 0
        self.left = 0

    async def gate(self, n: int = 0) -> int:
        """Wait."""
        self.calls += 1
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.left += 1
            raise
        return n


async def wait(client: Client, execution_id: str, **arguments: Any) -> types.CallToolResult:
    return await client.call_tool("wait_program", {"execution_id": execution_id, **arguments})


def id_in(result: types.CallToolResult) -> str:
    found = re.search(r"execution_id '([0-9a-f]{32})'", texts(result)[1])
    assert found is not None
    return found[1]


def plain(result: types.CallToolResult) -> list[str]:
    """Without what differs from run to run."""
    return [re.sub(r"'[0-9a-f]{32}'", "ID", re.sub(r"for \d+ s", "for N s", text)) for text in texts(result)]


@pytest.mark.parametrize(
    ("seconds", "spent", "left"), [(None, 5, None), (48, 0, 48), (48, 3.5, 44.5), (4, 5, 0.2), (0.1, 5, 0.1)]
)
def test_the_start_of_the_sandbox_counts_for_the_time_of_a_request(
    seconds: float | None, spent: float, left: float | None
) -> None:
    assert remaining_seconds(seconds, spent) == left


@pytest.mark.parametrize("mode", ERAS)
async def test_a_program_that_takes_longer_yields_and_the_rest_comes_once(open_client, mode) -> None:
    gate = Gate()
    async with open_client(gate.gate, yielding=SOON, mode=mode) as client:
        first = await run(client, "print('one')\nawait gate()\nprint('two')")
        execution_id = id_in(first)
        second = await wait(client, execution_id)
        gate.opened.set()
        last = await wait(client, execution_id)
        again = await wait(client, execution_id)
        cancelled = await wait(client, execution_id, cancel=True)

    rest = "Running for N s; it waits for gate. Call wait_program with execution_id ID; do not run it again."
    assert plain(first) == [f"{RUNNING}one\n", rest]
    assert plain(second) == [f"{RUNNING}(no output yet)", rest]
    assert texts(last) == [f"{DONE}two\n"]
    # Answered before, and on record since: whoever lost that answer has all of it.
    assert texts(again) == texts(cancelled) == [f"{DONE}one\ntwo\n"]
    assert (first.is_error, gate.calls) == (False, 1)


async def test_only_where_programs_yield_is_the_model_told_of_it_but_a_request_may_always_ask(open_client) -> None:
    gate = Gate()
    async with open_client(gate.gate, yielding=SOON) as client:
        on = (await client.list_tools()).tools
    async with open_client(gate.gate) as client:
        off = (await client.list_tools()).tools
        asked = await run(client, "await gate()\nprint('end')", yield_after_seconds=0.1)
        gate.opened.set()
        last = await wait(client, id_in(asked))

    assert [tool.name for tool in on] == ["execute_program", "wait_program"]
    assert [tool.name for tool in off] == ["execute_program"]
    assert "yield_after_seconds" in on[0].input_schema["properties"]
    assert "yield_after_seconds" not in off[0].input_schema["properties"]
    assert texts(last) == [f"{DONE}end\n"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_cancel_ends_the_program_and_its_calls_and_has_what_it_printed_since(open_client, mode) -> None:
    gate = Gate()
    async with open_client(gate.gate, yielding=SOON, mode=mode) as client:
        first = await run(client, "print('one')\nawait gate()\nprint('two')")
        cancelled = await wait(client, id_in(first), cancel=True)
        again = await wait(client, id_in(first))

    assert texts(cancelled) == ["[Script execution failed]\nCancelled: the program was stopped"]
    assert texts(again) == [
        "[Script execution failed]\nCancelled: the program was stopped", "Output before the failure:\none\n"
    ]  # fmt: skip
    assert gate.left == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_a_wait_that_its_client_gives_up_leaves_the_program_alone(open_client, mode) -> None:
    gate = Gate()
    async with open_client(gate.gate, yielding=SOON, mode=mode) as client:
        first = await run(client, "await gate()\nprint('end')")
        waiting = asyncio.create_task(wait(client, id_in(first), yield_after_seconds=60))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.opened.set()
        last = await wait(client, id_in(first))

    assert texts(last) == [f"{DONE}end\n"]
    assert gate.left == 0


async def test_of_two_waits_the_later_has_the_program_and_the_earlier_is_told_so(open_client) -> None:
    gate = Gate()
    async with open_client(gate.gate, yielding=SOON) as client:
        execution_id = id_in(await run(client, "await gate()\nprint('end')"))
        earlier = asyncio.create_task(wait(client, execution_id, yield_after_seconds=60))
        await asyncio.sleep(0.05)
        later = asyncio.create_task(wait(client, execution_id, yield_after_seconds=60))
        told = await earlier
        gate.opened.set()
        last = await later

    assert plain(told) == [f"{RUNNING}A later wait_program waits for program ID and gets its output."]
    assert texts(last) == [f"{DONE}end\n"]


FOREIGN = new_id("somebody else")
UNKNOWN = new_id("stdio")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "execution_id must be one that execute_program returned, got None"),
        ({"execution_id": 7}, "execution_id must be one that execute_program returned, got 7"),
        ({"execution_id": "../../etc"}, "execution_id must be one that execute_program returned, got '../../etc'"),
        (
            {"execution_id": "x" * 1000},
            f"execution_id must be one that execute_program returned, got '{'x' * 59}…",
        ),
        (
            {"execution_id": FOREIGN},
            f"no program '{FOREIGN}' here: it is another client's, or so old that it was forgotten",
        ),
        (
            {"execution_id": UNKNOWN},
            f"no program '{UNKNOWN}' here: it is another client's, or so old that it was forgotten",
        ),
        (
            {"execution_id": UNKNOWN, "cancel": "yes"},
            "cancel must be true or false, got 'yes'; the program was left alone",
        ),
        ({"execution_id": UNKNOWN, "yield_after_seconds": -1}, "yield_after_seconds must be a number above 0, got -1"),
        ({"execution_id": UNKNOWN, "yield_after_seconds": "9"}, "yield_after_seconds must be a number above 0, got '9'"),
    ],
    ids=["none", "a number", "a path", "too long", "foreign", "unknown", "cancel", "negative", "text"],
)  # fmt: skip
async def test_a_wait_for_nothing_gets_one_clear_answer(open_client, arguments, says) -> None:
    async with open_client(yielding=SOON) as client:
        result = await client.call_tool("wait_program", arguments)

    assert (texts(result), result.is_error) == ([f"[Script execution failed]\nUsageError: {says}"], True)


async def test_times_that_are_none_are_refused_and_huge_ones_never_yield(open_client) -> None:
    async with open_client(yielding=SOON) as client:
        wrong = [texts(await run(client, "print(1)", yield_after_seconds=one)) for one in (0, -1, True, "soon")]
        huge = await run(client, "print(1)", yield_after_seconds=1e300)

    assert wrong == [
        [f"[Script execution failed]\nUsageError: yield_after_seconds must be a number above 0, got {one!r}"]
        for one in (0, -1, True, "soon")
    ]
    assert texts(huge) == [f"{DONE}1\n"]


async def test_the_wall_clock_covers_the_whole(open_client) -> None:
    async with open_client(yielding=YieldPolicy(0.3), limits=Limits(wall_seconds=2.0)) as client:
        first = await run(client, "while True: pass")
        last = await wait(client, id_in(first), yield_after_seconds=60)

    assert texts(first)[0] == f"{RUNNING}(no output yet)"
    assert texts(last) == ["[Script execution failed]\nTimeoutError: Execution exceeded 2s limit"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_program_that_needs_a_yes_asks_whoever_waits_for_it(open_client, mode) -> None:
    gate = Gate()
    asked: list[str] = []

    def pay(n: int) -> int:
        """Pay."""
        return n

    async def answer(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True, "covers": "tool"})

    options = {"policy": Policy(ask=["pay"]), "mode": mode, "elicitation_callback": answer}
    async with open_client(gate.gate, pay, yielding=SOON, **options) as client:
        first = await run(client, "await gate()\nprint(sum([await pay(n=n) for n in range(50)]))")
        gate.opened.set()
        last = await wait(client, id_in(first), yield_after_seconds=60)

    assert texts(last) == [f"{DONE}1225\n"]
    assert asked == ['A program wants to call pay with {"n": 0}']


async def test_the_last_line_that_was_printed_is_told_as_progress(open_client) -> None:
    gate = Gate()
    seen: list[str | None] = []

    async def show(_: float, __: float | None, message: str | None) -> None:
        seen.append(message)
        gate.opened.set()

    async with open_client(gate.gate) as client:
        code = {"code": "print('step 1')\nprint('step 2')\nawait gate()\nprint('end')"}
        result = await client.call_tool("execute_program", code, progress_callback=show)

    assert seen[0] == "step 2"
    assert texts(result) == [f"{DONE}step 1\nstep 2\nend\n"]


@pytest.mark.parametrize("mode", ERAS)
async def test_megabytes_are_told_line_by_line_in_order_to_a_slow_client_and_a_wait_that_is_given_up_loses_none(
    open_client, mode
) -> None:
    gate = Gate()
    code = "for n in range(60_000):\n    print(n, 'x' * 40)\nawait gate()\nprint('end')"
    seen: list[int] = []

    async def slow(_: float, __: float | None, message: str | None) -> None:
        await asyncio.sleep(0.02)
        if message is not None and message[0].isdigit():
            seen.append(int(message.split()[0]))

    async with open_client(gate.gate, yielding=SOON, mode=mode) as client:
        first = await client.call_tool("execute_program", {"code": code}, progress_callback=slow)
        arguments = {"execution_id": id_in(first), "yield_after_seconds": 60}
        left = asyncio.create_task(client.call_tool("wait_program", arguments, progress_callback=slow))
        await asyncio.sleep(0.05)
        left.cancel()
        await client.list_tools()  # by its answer the server has heard of the cancel: else the end goes to that wait
        waiting = asyncio.create_task(client.call_tool("wait_program", arguments, progress_callback=slow))
        await until(lambda: gate.calls == 1)
        gate.opened.set()
        last = await waiting

    answers = "".join(text.partition("\n")[2] for text in (texts(first)[0], texts(last)[0]))
    told = [int(line.split()[0]) for line in answers.splitlines() if line[:1].isdigit()]
    assert seen == sorted(set(seen))
    assert told == sorted(set(told))
    # The last two: where the first answer had nothing yet, so that the other one has too much.
    assert answers.endswith(("end\n", TRUNCATED)) or "left out" in answers
    assert len(answers) < 2 * 70_000


async def test_output_of_a_chatty_program_is_cut_in_each_answer_and_never_repeated(open_client) -> None:
    gate = Gate()
    code = "for n in range(1000):\n    print(n)\nawait gate()\nfor n in range(1000, 1003):\n    print(n)"
    async with open_client(gate.gate, yielding=SOON, limits=Limits(wall_seconds=60, output_bytes=400)) as client:
        first = await run(client, code)
        gate.opened.set()
        last = await wait(client, id_in(first), yield_after_seconds=60)

    assert texts(first)[0].startswith(f"{RUNNING}0\n1\n2\n")
    assert len(texts(first)[0]) < 700
    assert texts(last) == [f"{DONE}1000\n1001\n1002\n"]


async def test_after_a_restart_the_program_goes_on_from_its_record(open_client, tmp_path) -> None:
    gate = Gate()
    path, holds = tmp_path / "ledger.sqlite", tmp_path / "running"
    ours, theirs = SqliteLedger(path), SqliteLedger(path)
    async with open_client(gate.gate, yielding=SOON, ledger=ours, holds=holds) as client:
        first = await run(client, "print('one')\nawait gate()\nprint('two')")
        async with open_client(gate.gate, yielding=SOON, ledger=theirs, holds=holds) as other:
            elsewhere = await wait(other, id_in(first))
        gate.opened.set()
        last = await wait(client, id_in(first))
    await theirs.close()
    await ours.close()

    assert plain(elsewhere) == [
        "[Script execution failed]\nUsageError: program ID runs in another process of this server; wait for it there"
    ]
    assert texts(last) == [f"{DONE}two\n"]
    assert list(holds.iterdir()) == []


CONFIG = """
execution: {languages: [python, bash]}
ledger: {where: ledger.sqlite}
tools:
  modules: [tools_here.py]
mcp: {yield_after: 1s}
"""
TOOLS = """
import asyncio, pathlib
from toolfold import tool

@tool(read_only=True)
async def gate() -> str:
    "Wait."
    pathlib.Path(__file__).with_name("called").touch()
    while not pathlib.Path(__file__).with_name("open").exists():
        await asyncio.sleep(0.02)
    return "open"

@tool
async def write(row: int) -> None:
    "Write."
    with pathlib.Path(__file__).with_name("rows").open("a") as rows:
        rows.write(f"{row}\\n")
"""


@pytest.mark.parametrize(
    ("language", "code", "end"),
    [
        ("python", "await write(row=1)\nprint('one')\nprint(await gate())\nawait write(row=2)\nprint('two')", "two"),
        ("bash", "write '{\"row\":1}' >/dev/null\necho one\ngate '{}' | jq -r .\nwrite '{\"row\":2}' | wc -l", "1"),
    ],
    ids=["python", "bash"],
)
@pytest.mark.long
async def test_a_server_that_is_killed_loses_nothing(tmp_path: Path, language: str, code: str, end: str) -> None:
    (tmp_path / "toolfold.yaml").write_text(CONFIG)
    (tmp_path / "tools_here.py").write_text(TOOLS)
    before = descendants(os.getpid())
    async with Client(server(tmp_path / "toolfold.yaml")) as client:
        first = await run(client, code, language=language)
        await until((tmp_path / "called").exists)
        [killed] = [pid for pid in descendants(os.getpid()) - before if _is_server(pid)]
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(MCPError, match="Connection closed"):
            await wait(client, id_in(first))
    waited = subprocess.run(
        [sys.executable, "-m", "toolfold", "runs", "--ledger", "ledger.sqlite", "wait", id_in(first), "--timeout", "60"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (tmp_path / "open").touch()

    async with Client(server(tmp_path / "toolfold.yaml")) as client:
        last = await wait(client, id_in(first))
        while texts(last)[0].startswith(RUNNING):
            last = await wait(client, id_in(first))

    assert texts(first)[0] in (f"{RUNNING}one\n", f"{RUNNING}(no output yet)")
    assert texts(last) == [f"{DONE}one\nopen\n{end}\n"]
    assert (tmp_path / "rows").read_text() == "1\n2\n"
    assert (waited.returncode, waited.stderr) == (
        75,
        f"toolfold: the process of execution {id_in(first)} is gone; its client can continue it, "
        f"or 'toolfold runs wait {id_in(first)} --cancel' cancels it\n",
    )


def _is_server(pid: int) -> bool:
    return b"toolfold\0mcp" in Path(f"/proc/{pid}/cmdline").read_bytes()


# --- when ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "environment", "expected"),
    [
        (None, {}, YieldPolicy(None, None)),
        (50.0, {}, YieldPolicy(50.0, None)),
        (None, {"MCP_TOOL_TIMEOUT": "60000"}, YieldPolicy(48.0, 48.0)),
        (50.0, {"MCP_TOOL_TIMEOUT": "60000"}, YieldPolicy(48.0, 48.0)),
        (10.0, {"MCP_TOOL_TIMEOUT": "60000"}, YieldPolicy(10.0, 48.0)),
        (None, {"MCP_TOOL_TIMEOUT": "600000"}, YieldPolicy(None, 480.0)),  # programs may take 120 s
        (None, {"MCP_TOOL_TIMEOUT": "a while"}, YieldPolicy(None, None)),
        (None, {"MCP_TOOL_TIMEOUT": "0"}, YieldPolicy(None, None)),
    ],
)
def test_programs_yield_below_the_timeout_of_the_client_that_is_known(configured, environment, expected) -> None:
    assert yield_policy_of(configured, environment, 120.0) == expected


def test_a_request_gets_no_longer_than_its_client_waits() -> None:
    assert YieldPolicy(48.0, 48.0).seconds_for(3600) == 48.0


def test_an_id_belongs_to_its_owner() -> None:
    mine = new_id("me")

    assert check_id(mine, "me") == mine
    with pytest.raises(UsageError):
        check_id(mine, "you")
