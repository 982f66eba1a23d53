"""What the model is shown: the documented texts, images, links; nothing structured."""

import base64

import mcp_types as types
import pytest

from tests.interfaces.mcp.conftest import ERAS, FakeBridge, Server, bridged, run, texts
from toolfold.errors import EngineCrashed, UsageError
from toolfold.interfaces.mcp.outcome_results import NOTHING_CALLED, OF_ERROR, to_mcp
from toolfold.ledger.base import ExecutionFilter
from toolfold.ledger.memory import MemoryLedger
from toolfold.models import Limits, Media
from toolfold.tools.policy import Policy


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("mode", ERAS)
async def test_a_program_that_prints_shows_the_documented_text_and_nothing_else(open_client, mode) -> None:
    async with open_client(add, mode=mode) as client:
        result = await run(client, "print(await add(a=1, b=2))")

    assert result.content == [types.TextContent(text="[Script executed successfully]\n3\n")]
    assert (result.is_error, result.structured_content) == (False, None)


async def test_a_program_that_prints_nothing_says_so(open_client) -> None:
    async with open_client() as client:
        result = await run(client, "x = 1")

    assert texts(result) == ["[Script executed successfully]\n(no output)"]


async def test_the_value_of_a_program_that_prints_nothing_follows_the_documented_text(open_client) -> None:
    async with open_client(add) as client:
        result = await run(client, "[await add(a=1, b=2)]")

    assert texts(result) == [
        "[Script executed successfully]\n(no output)",
        "Nothing was printed. The value of the last line: [3]",
    ]


async def test_a_failing_program_shows_its_traceback_as_an_error(open_client) -> None:
    async with open_client() as client:
        result = await run(client, "x = {}\nprint(x['a'])")

    assert result.is_error
    assert texts(result) == [
        "[Script execution failed]\n"
        "Traceback (most recent call last):\n"
        '  File "<program>", line 2, in __main__\n'
        "    print(x['a'])\n"
        "KeyError: 'a'"
    ]


async def test_what_was_printed_before_a_failure_follows_the_documented_text(open_client) -> None:
    async with open_client() as client:
        result = await run(client, "print('so far')\nraise ValueError('no')")

    assert texts(result)[1:] == ["Output before the failure:\nso far\n"]


async def test_a_failing_tool_shows_the_line_that_called_it(open_client) -> None:
    async def refuse(ticker: str) -> None:
        raise ConnectionError("connection refused")

    bridge = FakeBridge({"financial-data": Server("financial-data")}, [bridged("financial-data", "query", refuse)])
    async with open_client(bridge=bridge) as client:
        result = await run(client, 't = "AMZN"\n\ndata = await mcp__financial_data__query(ticker=t)')

    assert texts(result) == [
        "[Script execution failed]\n"
        "Traceback (most recent call last):\n"
        '  File "<program>", line 3, in __main__\n'
        "    data = await mcp__financial_data__query(ticker=t)\n"
        "ToolError: 'mcp__financial_data__query' failed: connection refused"
    ]


@pytest.mark.parametrize("has_server", [True, False])
async def test_a_blocked_tool_is_refused_in_the_same_words_whether_or_not_its_server_is_there(
    open_client, has_server
) -> None:
    name = "mcp__internal_apis__delete_resource"
    tools = [bridged("internal-apis", "delete_resource")] if has_server else []
    bridge = FakeBridge({"internal-apis": Server("internal-apis")}, tools)
    async with open_client(bridge=bridge, policy=Policy(block=[name]), blocked=[name]) as client:
        result = await run(client, f"await {name}(id=7)")
        listed = (await client.list_tools()).tools[0].description or ""

    assert texts(result) == [
        "[Script execution failed]\n"
        "ToolError: 'mcp__internal_apis__delete_resource' is not available in execute_program"
    ]
    assert name not in listed


async def test_a_timeout_names_the_limit_that_was_asked_for(open_client) -> None:
    async with open_client() as client:
        result = await run(client, "while True: pass", timeout_seconds=0.3)

    assert texts(result) == ["[Script execution failed]\nTimeoutError: Execution exceeded 0.3s limit"]


async def test_output_over_the_limit_is_cut_with_a_note(open_client) -> None:
    async with open_client(limits=Limits(output_bytes=11, wall_seconds=100)) as client:
        result = await run(client, "print('é' * 10)")

    first, rest = texts(result)
    assert first == "[Script executed successfully]\nééééé\n... (truncated)"
    assert rest.startswith("10 bytes of output are not shown. A program can read the whole: open('output-")


async def test_a_rejected_program_says_the_problem_and_that_nothing_was_called(open_client) -> None:
    async with open_client(add) as client:
        result = await run(client, "print(await ad(a=1, b=2))")

    assert texts(result) == [
        "[Script execution failed]\n"
        "line 1: no tool 'ad'; did you mean 'add'?\n"
        "print(await ad(a=1, b=2))\n"
        "            ^\n"
        f"{NOTHING_CALLED}"
    ]


async def test_a_picture_that_a_tool_returned_arrives_as_an_image(open_client) -> None:
    def draw() -> Media:
        return Media(kind="image", mime="image/png", data=b"pixels")

    async with open_client(draw) as client:
        result = await run(client, "print('here')\n{'plot': [await draw()]}")

    assert result.content[1:] == [types.ImageContent(data=base64.b64encode(b"pixels").decode(), mime_type="image/png")]


async def test_a_sound_that_a_tool_returned_arrives_as_audio(open_client) -> None:
    def speak() -> Media:
        return Media(kind="audio", mime="audio/wav", data=b"waves")

    def hum() -> Media:
        return Media(kind="audio", mime="audio/ogg", uri="https://example.org/hum.ogg")

    async with open_client(speak, hum) as client:
        result = await run(client, "print('here')\n[await speak(), {'hum': await hum()}]")

    assert result.content[1:] == [types.AudioContent(data=base64.b64encode(b"waves").decode(), mime_type="audio/wav")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "code must be text, got None; nothing was called"),
        ({"code": "1", "timeout_seconds": -1}, "timeout_seconds must be a number above 0, got -1; nothing was called"),
        ({"code": "1", "timeout_seconds": 999}, "timeout_seconds is 999; the most here is 100; nothing was called"),
        ({"code": "1", "session": 7}, "session must be 1 to 100 printable characters, got 7; nothing was called"),
    ],
)
async def test_a_wrong_argument_is_told_as_a_failed_program(open_client, arguments, message) -> None:
    async with open_client() as client:
        result = await client.call_tool("execute_program", arguments)

    assert result.is_error
    assert texts(result) == [f"[Script execution failed]\nUsageError: {message}"]


def test_a_crash_names_the_tools_that_may_have_run() -> None:
    result = to_mcp(EngineCrashed("the guest died", started=("pay", "mail")))

    assert texts(result) == [
        "[Script execution failed]\nSandboxCrashed: the guest died\nTools that were called and may have run: pay, mail"
    ]
    assert to_mcp(UsageError("no")).is_error


def test_each_error_of_the_package_has_its_word_for_the_model() -> None:
    words = {kind.__name__: texts(to_mcp(kind("why"))) for kind in OF_ERROR}

    assert words == {
        name: [f"[Script execution failed]\n{word}: why"]
        for word, names in {
            "UsageError": "UsageError SealBroken",
            "ToolError": "ToolError ToolNotFound ToolRefused ToolArgumentsInvalid ToolTimedOut ToolFailed "
            "ToolUnreachable ServerHungUp AgentUnreachable ReplyUnfit",
            "SandboxError": "EngineError",
            "SandboxUnavailable": "EngineUnavailable",
            "SandboxCrashed": "EngineCrashed",
            "InternalError": "ToolfoldError ReplayDiverged Fenced LedgerFull LedgerFailed",
        }.items()
        for name in names.split()
    }


async def test_a_program_that_misreads_a_reply_is_shown_its_keys_after_the_traceback(open_client) -> None:
    def get_user(id: int):
        """Get a user."""
        return {"id": id, "name": "Ada"}

    async with open_client(get_user) as client:
        result = await run(client, "user = await get_user(id=1)\nprint(user['nme'])")

    assert texts(result) == [
        "[Script execution failed]\n"
        "Traceback (most recent call last):\n"
        '  File "<program>", line 2, in __main__\n'
        "    print(user['nme'])\n"
        "KeyError: 'nme'",
        "get_user returned {id: int, name: str}",
    ]


async def test_a_silent_program_is_shown_what_its_calls_returned(open_client) -> None:
    async with open_client(add) as client:
        result = await run(client, "total = await add(a=1, b=2)")

    assert texts(result) == [
        "[Script executed successfully]\n(no output)",
        "Nothing was printed. The last replies:\nadd returned int",
    ]


async def test_of_a_long_output_both_ends_are_shown_and_the_next_program_opens_the_whole(open_client) -> None:
    async with open_client() as client:
        result = await run(client, "for number in range(20_000):\n    print(f'{number:09}')")
        head, rest = texts(result)
        name = rest.partition("open('")[2].partition("')")[0]
        read = await run(client, f"print(len(open({name!r}).read()))")

    assert head.startswith("[Script executed successfully]\n000000000\n")
    assert head.endswith("\n000006552\n... (truncated)")
    assert rest.startswith(
        f"132,431 bytes of output are not shown. A program can read the whole: open({name!r}). It ends with:\n00001979"
    )
    assert rest.endswith("\n000019999\n")
    assert texts(read) == ["[Script executed successfully]\n200000\n"]


async def test_the_names_in_the_metadata_of_a_call_are_on_record(open_client) -> None:
    ledger = MemoryLedger()
    async with open_client(ledger=ledger) as client:
        meta = {"toolfold/title": "Report", "toolfold/tags": ["vip"], "other/user": "ann"}
        await client.call_tool("execute_program", {"code": "1"}, meta=meta)
        refused = await client.call_tool("execute_program", {"code": "1"}, meta={"toolfold/tags": {"a": 1}})
        (row,) = await ledger.search(ExecutionFilter())

    assert (row.title, row.tags, row.user) == ("Report", ("vip",), "")
    assert texts(refused) == [
        "[Script execution failed]\nUsageError: tags must be a list of at most 20 texts, got {'a': 1}"
    ]
