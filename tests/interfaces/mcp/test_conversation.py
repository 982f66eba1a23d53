"""A program that lasts: progress, questions to a person in both eras, cancelling, sessions, files."""

import asyncio
import contextlib

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.interfaces.mcp.conftest import ERAS, FakeBridge, Server, bridged, run, texts, until
from toolfold.models import Limits
from toolfold.tools.policy import Policy


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# --- progress -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_each_call_is_told_as_progress(open_client, mode) -> None:
    seen: list[tuple[float, str]] = []

    async def show(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, (message or "").partition(" (")[0]))

    async def slow(a: int) -> int:
        await asyncio.sleep(0.02)
        return a

    async with open_client(slow, mode=mode) as client:
        code = "for n in range(3):\n    await slow(a=n)"
        await client.call_tool("execute_program", {"code": code}, progress_callback=show)
        await until(lambda: len(seen) == 3)

    assert seen == [(1, "slow"), (2, "slow"), (3, "slow")]


# --- questions ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_that_needs_a_yes_is_asked_for_and_the_program_goes_on(open_client, mode) -> None:
    asked: list[str] = []

    async def answer(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True})

    async with open_client(add, policy=Policy(ask=["add"]), mode=mode, elicitation_callback=answer) as client:
        result = await run(client, "print('first')\nprint(await add(a=1, b=2))")

    assert asked == ['A program wants to call add with {"a": 1, "b": 2}']
    assert texts(result) == ["[Script executed successfully]\nfirst\n3\n"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_no_is_an_error_in_the_program_with_the_persons_reason(open_client, mode) -> None:
    async def answer(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"approve": False, "reason": "too dear"})

    async with open_client(add, policy=Policy(ask=["add"]), mode=mode, elicitation_callback=answer) as client:
        result = await run(client, "try:\n    await add(a=1, b=2)\nexcept ToolError as error:\n    print(error)")

    assert texts(result) == ["[Script executed successfully]\n'add' was denied: too dear\n"]


@pytest.mark.parametrize("mode", ERAS)
async def test_an_answer_may_count_for_all_further_calls_of_the_tool(open_client, mode) -> None:
    asked: list[str] = []

    async def answer(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True, "always": True})

    async with open_client(add, policy=Policy(ask=["add"]), mode=mode, elicitation_callback=answer) as client:
        result = await run(client, "for n in range(3):\n    print(await add(a=n, b=0))")

    assert len(asked) == 1
    assert texts(result) == ["[Script executed successfully]\n0\n1\n2\n"]


@pytest.mark.parametrize("mode", ERAS)
async def test_gathered_calls_are_asked_for_one_by_one(open_client, mode) -> None:
    async def answer(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"approve": '"a": 1' not in params.message})

    async with open_client(add, policy=Policy(ask=["add"]), mode=mode, elicitation_callback=answer) as client:
        code = "print(await asyncio.gather(*(add(a=n, b=0) for n in range(3)), return_exceptions=True))"
        result = await run(client, code)

    assert texts(result) == [
        "[Script executed successfully]\n[0, ToolError(\"'add' was denied: the user said no\"), 2]\n"
    ]


@pytest.mark.parametrize("mode", ERAS)
async def test_where_nobody_can_be_asked_the_call_is_refused_with_the_reason(open_client, mode) -> None:
    async with open_client(add, policy=Policy(ask=["add"]), mode=mode) as client:
        result = await run(client, "await add(a=1, b=2)")

    assert texts(result)[0].endswith("ToolError: 'add' was denied: it needs approval, and nobody can give it here")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_bridged_server_that_asks_gets_the_persons_answer_and_the_program_goes_on(open_client, mode) -> None:
    form = types.ElicitRequestFormParams(message="Your name?", requested_schema={"type": "object", "properties": {}})
    bridge = FakeBridge({"forms": Server("forms")})

    async def ask() -> str:
        assert bridge.outer is not None
        # As the real bridge does: the question comes from a task that knows only the execution.
        answer = await bridge.outer.elicit(form, server="forms", execution_id="")
        return f"{answer.action} {answer.content}"

    async def answer(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    bridge.known.append(bridged("forms", "ask", ask))
    async with open_client(bridge=bridge, mode=mode, elicitation_callback=answer) as client:
        result = await run(client, "print(await mcp__forms__ask())\nprint(await mcp__forms__ask())")

    said = "accept {'name': 'Ada'}\n"
    assert texts(result) == [f"[Script executed successfully]\n{said}{said}"]


@pytest.mark.long
@pytest.mark.parametrize("mode", ERAS)
async def test_the_programs_clock_stands_still_while_a_bridged_server_asks(open_client, mode) -> None:
    limits, bridge = Limits(wall_seconds=3), FakeBridge({"forms": Server("forms")})
    form = types.ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})

    async def ask() -> str:
        assert bridge.outer is not None
        return (await bridge.outer.elicit(form, server="forms", execution_id="")).action

    async def think(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        await asyncio.sleep(limits.wall_seconds + 0.1)
        return types.ElicitResult(action="accept", content={})

    bridge.known.append(bridged("forms", "ask", ask))
    async with open_client(bridge=bridge, mode=mode, limits=limits, elicitation_callback=think) as client:
        result = await run(client, "print(await mcp__forms__ask())")

    assert texts(result) == ["[Script executed successfully]\naccept\n"]


async def test_an_answer_that_is_sent_twice_finds_no_program(open_client) -> None:
    async with open_client(add, policy=Policy(ask=["add"]), elicitation_callback=_say_yes) as client:
        arguments = {"code": "print(await add(a=1, b=2))"}
        asked = await client.session.call_tool("execute_program", arguments, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        yes = {
            key: types.ElicitResult(action="accept", content={"approve": True}) for key in asked.input_requests or {}
        }
        again = {"input_responses": yes, "request_state": asked.request_state, "allow_input_required": True}
        first = await client.session.call_tool("execute_program", arguments, **again)
        second = await client.session.call_tool("execute_program", arguments, **again)
        with pytest.raises(MCPError) as forged:
            await client.session.call_tool(
                "execute_program", arguments, request_state="forged", allow_input_required=True
            )

    assert texts(first) == ["[Script executed successfully]\n3\n"]
    assert texts(second) == [
        "[Script execution failed]\nUsageError: the program that asked is gone: "
        "it waited too long, or was answered; run it again"
    ]
    assert str(forged.value) == "Invalid or expired requestState"


async def _say_yes(_, params: types.ElicitRequestFormParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"approve": True})


# --- cancelling -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("policy", [Policy(), Policy(ask=["asked"])])
async def test_a_cancelled_request_ends_the_program_and_its_call(open_client, mode, policy) -> None:
    events: list[str] = []

    async def forever() -> None:
        events.append("called")
        try:
            await asyncio.sleep(60)
        finally:
            events.append("ended")

    async def asked() -> int:
        return 1

    async with open_client(forever, asked, policy=policy, mode=mode, elicitation_callback=_say_yes) as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(run, client, "await asked()\nawait forever()")
                await until(lambda: events == ["called"])
                scope.cancel()
        await until(lambda: events == ["called", "ended"])
        result = await run(client, "print('still here')")

    assert texts(result) == ["[Script executed successfully]\nstill here\n"]


async def test_programs_of_one_client_run_at_the_same_time(open_client) -> None:
    met = asyncio.Barrier(2)

    async def meet() -> int:
        await met.wait()
        return 1

    async with open_client(meet) as client:
        results = await asyncio.gather(*(run(client, "print(await meet())") for _ in range(2)))

    assert [texts(result) for result in results] == [["[Script executed successfully]\n1\n"]] * 2


# --- sessions and files ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_a_session_keeps_names_and_files_and_its_absence_keeps_nothing(open_client, mode) -> None:
    async with open_client(mode=mode) as client:
        await run(client, "x = 41\nopen('note.txt', 'w').write('kept')", session="work")
        kept = await run(client, "print(x + 1, open('note.txt').read())", session="work")
        fresh = await run(client, "import os\nprint('x' in globals(), os.listdir())")

    assert texts(kept) == ["[Script executed successfully]\n42 kept\n"]
    assert texts(fresh) == ["[Script executed successfully]\nFalse []\n"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_produced_file_is_linked_and_can_be_read(open_client, mode) -> None:
    async with open_client(mode=mode) as client:
        code = "open('a b.csv', 'w').write('x,y')\nopen('raw.bin', 'wb').write(bytes([255, 0]))\nprint('done')"
        result = await run(client, code)
        links = [part for part in result.content if isinstance(part, types.ResourceLink)]
        read = [(await client.read_resource(link.uri)).contents[0] for link in links]
        listed = (await client.list_resources()).resources
        with pytest.raises(MCPError) as missing:
            await client.read_resource("toolfold://files/0000/a.txt")

    assert [(link.name, link.mime_type, link.size) for link in links] == [
        ("a b.csv", "text/csv", 3),
        ("raw.bin", "application/octet-stream", 2),
    ]
    assert [getattr(one, "text", None) or one.blob for one in read] == ["x,y", "/wA="]
    assert [one.uri for one in listed] == [link.uri for link in links]
    assert str(missing.value) == "no file at 'toolfold://files/0000/a.txt'; it may be too old"


async def test_a_picture_that_a_program_saved_arrives_as_an_image_and_as_a_link(open_client) -> None:
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    async with open_client() as client:
        code = f"import base64\nopen('dot.png', 'wb').write(base64.b64decode('{png}'))\nprint('drawn')"
        result = await run(client, code)

    assert [part.type for part in result.content] == ["text", "image", "resource_link"]
    assert result.content[1] == types.ImageContent(data=png, mime_type="image/png")


async def test_a_program_may_ask_for_less_time_but_not_for_more(open_client) -> None:
    async with open_client(limits=Limits(wall_seconds=60)) as client:
        less = await run(client, "while True: pass", timeout_seconds=0.3)
        more = await run(client, "while True: pass", timeout_seconds=61)

    assert texts(less) == ["[Script execution failed]\nTimeoutError: Execution exceeded 0.3s limit"]
    assert texts(more) == [
        "[Script execution failed]\nUsageError: timeout_seconds is 61; the most here is 60; nothing was called"
    ]


async def test_a_sandbox_that_cannot_be_had_is_told_to_each_program(monkeypatch) -> None:
    from mcp import Client

    from toolfold.errors import EngineUnavailable
    from toolfold.interfaces.mcp.offered_tools import Offer
    from toolfold.interfaces.mcp.server import McpServer
    from toolfold.runtime import Runtime
    from toolfold.testing import ScriptedEngine

    class Broken(ScriptedEngine):
        async def __aenter__(self):
            raise EngineUnavailable("no user namespaces here; run 'toolfold doctor'")

    runtime = Runtime(engine=Broken())
    with contextlib.suppress(ExceptionGroup):
        async with McpServer(runtime, Offer(runtime)) as mcp_server, Client(mcp_server.server) as client:
            result = await run(client, "print(1)")

    assert texts(result) == [
        "[Script execution failed]\nSandboxUnavailable: no user namespaces here; run 'toolfold doctor'"
    ]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_session_that_a_restart_lost_is_said_to_be_new(open_client, mode, tmp_path) -> None:
    async with open_client(mode=mode, ledger=str(tmp_path / "runs.sqlite")) as client:
        first = await run(client, "total = 7", session="work")
    async with open_client(mode=mode, ledger=str(tmp_path / "runs.sqlite")) as client:
        second = await run(client, "print(total)", session="work")
        third = await run(client, "print('total' in globals())", session="work")
        other = await run(client, "print('total' in globals())", session="other")
    async with open_client(mode=mode, ledger=str(tmp_path / "runs.sqlite")) as client:
        fourth = await run(client, "print('total' in globals())", session="work")

    note = "session 'work' is new in this process: the variables and files of its earlier programs are gone"
    assert (texts(first)[1:], texts(second)[1:], texts(third)[1:], texts(other)[1:]) == ([], [note], [], [])
    assert texts(fourth) == ["[Script executed successfully]\nFalse\n", note]
