"""Bridged tools, called from programs in the real sandbox."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sources.mcp.support import FakeOuter, raw, remember, sdk
from toolfold import Limits, Outcome, Runtime
from toolfold.interfaces.config_runtime import with_python_names
from toolfold.prompts.python_stubs import tree
from toolfold.sources.mcp import Bridge, Outer, Server


@pytest.fixture
def eras(tmp_path: Path) -> Path:
    return tmp_path / "eras.json"


@asynccontextmanager
async def running(
    servers: Sequence[Server], eras: Path, *, era="legacy", outer: Outer | None = None, **fields
) -> AsyncIterator[Runtime]:
    async with Bridge(servers, outer=outer, eras=remember(eras, era, *servers)) as bridge:
        await bridge.settled(timeout_seconds=60)
        async with Runtime(bridge.tools(), **fields) as runtime:
            yield runtime


def ended(outcome: Outcome) -> tuple[str, str]:
    return outcome.status, outcome.stdout or str(outcome.problem)


@pytest.mark.parametrize(
    "program",
    [
        "print(await mcp__my_server__echo(text='hi'))",
        "print(await mcp__my_server__echo('hi'))",
        "from tools.my_server import echo\nprint(await echo(text='hi'))",
        "from tools.my_server import mcp__my_server__echo as echo\nprint(await echo(text='hi'))",
        "import tools.my_server as server\nprint(server.echo(text='hi'))",
        "from tools import my_server\nprint(my_server.echo('hi'))",
        "print(tools.my_server.echo(text='hi'))",
        "print(tools.mcp__my_server__echo(text='hi'))",
        "import asyncio\nfrom tools.my_server import echo\nprint(*await asyncio.gather(echo('hi')))",
    ],
)
async def test_a_bridged_tool_can_be_called_in_every_way(program: str, eras: Path) -> None:
    async with running([raw("my-server")], eras) as runtime:
        outcome = await runtime.run(program)

    assert ended(outcome) == ("finished", "hi\n")


async def test_every_odd_name_has_a_way_to_be_called(eras: Path) -> None:
    long = "l" * 128
    odd = ["get-users", "db.query", "größe", "a.b", "a_b", "a/b", "查询", "🙂", "2fast", "class", long]
    server = raw("odd-names", "--names", json.dumps(odd))
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        specs = [one.spec for one in bridge.tools() if one.spec.source == "mcp:odd-names"]
        async with Runtime(bridge.tools()) as runtime:
            outcomes = [
                await runtime.run(f"from tools.odd_names import {spec.short_name} as one\nprint(await {name}('x'))")
                for spec in specs
                for name in (spec.python_name, *spec.aliases, "one")
            ]

    assert {spec.name[:128] for spec in specs} == {spec.name for spec in specs}
    assert {outcome.status for outcome in outcomes} == {"finished"}
    assert {outcome.stdout for outcome in outcomes} == {f"{name}: x\n" for name in odd}


async def test_search_finds_every_tool_by_its_own_name(eras: Path) -> None:
    names = ["for", "a-b", "is", "to-do", "get-users", "the.and", "List_All"]
    program = f"for name in {names}:\n    print((await search_tools(query=name))[0]['name'])"
    async with running([raw("my-server", "--names", json.dumps([*names, "other"]))], eras) as runtime:
        outcome = await runtime.run(program)

    assert ended(outcome) == (
        "finished",
        "".join(
            f"mcp__my_server__{name}\n" for name in ("for", "a_b", "is", "to_do", "get_users", "the_and", "List_All")
        ),
    )


async def test_a_message_names_each_tool_once_and_as_a_program_can_write_it(eras: Path) -> None:
    server = raw("my-server", "--names", json.dumps([f"get-{letter}" for letter in "abcd"]))
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        async with Runtime(with_python_names(bridge.tools())) as runtime:
            unknown = await runtime.run("await frobnicate()")
            hyphenated = await runtime.run("await mcp__my-server__get-a()")

    assert (unknown.problem and unknown.problem.message, hyphenated.problem and hyphenated.problem.message) == (
        "no tool 'frobnicate'; the tools are: mcp__my_server__get_a, mcp__my_server__get_b, mcp__my_server__get_c, "
        "mcp__my_server__get_d, list_resources, read_resource, ...",
        "'mcp__my-server__get-a' is not a valid Python name; write 'mcp__my_server__get_a'",
    )


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "await mcp__my-server__echo(text='hi')",
            "'mcp__my-server__echo' is not a valid Python name; write 'mcp__my_server__echo'",
        ),
        (
            "print((await mcp__my-server__echo(text='hi'))['rows'])",
            "'mcp__my-server__echo' is not a valid Python name; write 'mcp__my_server__echo'",
        ),
        (
            "await mcp__my_server__ecko(text='hi')",
            "no tool 'mcp__my_server__ecko'; did you mean 'mcp__my_server__echo'?",
        ),
        ("await mcp_my_server_echo(text='hi')", "no tool 'mcp_my_server_echo'; did you mean 'mcp__my_server__echo'?"),
        (
            "from tools.my_server import ecko",
            "no tool 'ecko' in 'tools.my_server'; did you mean 'echo'?",
        ),
    ],
)
async def test_a_wrong_spelling_is_told_the_right_one_before_anything_runs(
    program: str, message: str, eras: Path
) -> None:
    async with running([raw("my-server")], eras) as runtime:
        outcome = await runtime.run(program)

    assert outcome.problem is not None
    assert (outcome.status, outcome.problem.message) == ("rejected", message)


async def test_servers_are_called_together_and_values_are_values(eras: Path) -> None:
    program = """
import asyncio
echoes = await asyncio.gather(*(mcp__raw__echo(text=str(n)) for n in range(50)))
rows, total = await asyncio.gather(mcp__sdk__json_text(), mcp__sdk__total(numbers=[1, 2, 3]))
words, image = await mcp__sdk__picture()
print(len(echoes), rows["rows"], total["total"], words, image.mime, len(image.data))
"""
    async with running([raw(), sdk()], eras, era="modern") as runtime:
        outcome = await runtime.run(program)

    assert ended(outcome) == ("finished", "50 [1, 2] 6 a red dot image/png 8\n")


async def test_forty_megabytes_reach_the_program(eras: Path) -> None:
    limits = replace(Limits(), reply_bytes=64 * 1024 * 1024)
    async with running([raw()], eras, limits=limits) as runtime:
        outcome = await runtime.run("print(len(await mcp__raw__large(size=40_000_000)))")

    assert ended(outcome) == ("finished", "40000000\n")


async def test_a_server_that_dies_in_the_middle_is_an_error_the_program_can_catch(eras: Path) -> None:
    program = """
try:
    await mcp__raw__die()
except ToolError as error:
    print(error)
print(await mcp__raw__echo(text="back"), await mcp__other__echo(text="never away"))
"""
    async with running([raw(), raw("other")], eras) as runtime:
        outcome = await runtime.run(program)

    assert ended(outcome) == (
        "finished",
        "'mcp__raw__die' failed: server 'raw' was lost during the call; it may have run, so it was not repeated: "
        "signal 9 ended it: out of luck\nback never away\n",
    )


async def test_a_tools_own_no_never_opens_the_breaker(eras: Path) -> None:
    program = """
for _ in range(8):
    try:
        await mcp__raw__fail(text="no such row")
    except ToolError as error:
        print(error)
"""
    async with running([raw()], eras) as runtime:
        outcome = await runtime.run(program)

    assert ended(outcome) == ("finished", "'mcp__raw__fail' failed: no such row\n" * 8)
    assert [call.attempts for call in outcome.calls] == [1] * 8


async def test_a_call_over_its_servers_time_limit_is_ended_there_too(eras: Path) -> None:
    program = """
try:
    await mcp__raw__slow(seconds=5)
except ToolError as error:
    print(error)
print(await mcp__raw__cancelled())
"""
    async with running([raw(call_timeout_seconds=2)], eras) as runtime:
        outcome = await runtime.run(program)

    assert ended(outcome) == ("finished", "'mcp__raw__slow' timed out after 2 s\n['caller cancelled']\n")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_program_goes_on_when_the_client_outside_has_answered(era, eras: Path) -> None:
    outer = FakeOuter(can_elicit=True)
    async with running([sdk()], eras, era=era, outer=outer) as runtime:
        outcome = await runtime.run("print(await mcp__sdk__greet(), await mcp__sdk__add(1, 2))")

    assert ended(outcome) == ("finished", "hello Ann 3\n")
    assert outer.asked == [("sdk", outcome.execution_id, "Who are you?")]


async def test_resources_and_prompts_are_functions_in_programs(eras: Path) -> None:
    program = """
listed = await list_resources(server="raw")
print(await read_resource("raw", listed[0]["uri"]), (await get_prompt("raw", "greet", {"who": "Ann"}))[0]["content"])
"""
    async with running([raw()], eras) as runtime:
        outcome = await runtime.run(program)

    assert ended(outcome) == ("finished", "text of memo://one Hello Ann\n")


async def test_stub_files_have_the_short_names_too(eras: Path) -> None:
    server = raw("my-server")
    async with Bridge([server], eras=remember(eras, "legacy", server)) as bridge:
        await bridge.settled(timeout_seconds=60)
        files = tree([one.spec for one in bridge.tools() if one.spec.short_name == "echo"])

    assert files["tools/my_server/__init__.py"].splitlines()[2:] == [
        "from .mcp__my_server__echo import mcp__my_server__echo as mcp__my_server__echo",
        "from .mcp__my_server__echo import mcp__my_server__echo as echo",
    ]
