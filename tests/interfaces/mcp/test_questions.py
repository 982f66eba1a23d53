"""Questions in a row: clients stop after ten rounds, and a program that waits for an answer holds its session."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client._input_required import DEFAULT_INPUT_REQUIRED_MAX_ROUNDS

from tests.interfaces.mcp.conftest import ERAS, FakeBridge, Server, bridged, run, texts
from toolfold.interfaces.mcp.client_questions import CLIENT_ROUNDS
from toolfold.tools.policy import Policy

FORM = types.ElicitRequestFormParams(message="Your name?", requested_schema={"type": "object", "properties": {}})
NO_MORE = (
    "this client answers at most 10 rounds of questions in one program; make calls that need an answer "
    "together with asyncio.gather, or run the rest in another program"
)


def pay(n: int) -> int:
    """Pay somebody."""
    return n


async def say_yes(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"decision": "call"})


def test_the_rounds_that_are_counted_on_are_those_of_the_sdks_own_client() -> None:
    assert CLIENT_ROUNDS == DEFAULT_INPUT_REQUIRED_MAX_ROUNDS


async def test_after_ten_rounds_a_call_that_needs_a_yes_is_refused_with_the_reason(open_client) -> None:
    code = "for n in range(11):\n    try:\n        print(await pay(n=n))\n    except ToolError as error:\n        print(error)"
    async with open_client(pay, policy=Policy(ask=["pay"]), elicitation_callback=say_yes) as client:
        result = await run(client, code)

    said = "".join(f"{n}\n" for n in range(10))
    assert texts(result) == [f"[Script executed successfully]\n{said}'pay' was denied: {NO_MORE}\n"]


async def test_the_tenth_form_says_that_it_is_the_last_and_an_answer_for_the_tool_covers_the_rest(open_client) -> None:
    forms: list[types.ElicitRequestFormParams] = []

    async def answer(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        forms.append(params)
        decision = "tool" if "the last question" in params.message else "call"
        return types.ElicitResult(action="accept", content={"decision": decision})

    async with open_client(pay, policy=Policy(ask=["pay"]), elicitation_callback=answer) as client:
        result = await run(client, "print(sum([await pay(n=n) for n in range(40)]))")

    assert texts(result) == ["[Script executed successfully]\n780\n"]
    assert [form.message for form in forms] == [
        *(f'A program wants to call pay with {{"n": {n}}}' for n in range(9)),
        'A program wants to call pay with {"n": 9}\n'
        "This is the last question that your client takes from this program: what your answer is not for is refused.",
    ]
    schema = forms[-1].requested_schema
    assert schema == forms[0].requested_schema
    assert (schema["properties"]["decision"]["default"], schema.get("required", [])) == ("call", [])


@pytest.mark.parametrize(
    ("content", "printed"),
    [
        (None, "0 1 2"),
        ({}, "0 1 2"),
        ({"decision": "call"}, "0 1 2"),
        ({"decision": "arguments"}, "0 1 2"),
        ({"decision": "tool"}, "0 1 2"),
        ({"decision": "call", "reason": ""}, "0 1 2"),
        ({"approve": True, "covers": "call", "reason": "fine"}, "0 1 2"),
        ({"decision": "refuse"}, "'pay' was denied: the user said no"),
        ({"decision": "refuse", "reason": "too dear"}, "'pay' was denied: too dear"),
        ({"decision": "refuse_tool", "reason": "too dear"}, "'pay' was denied: too dear"),
        ({"decision": "call", "reason": "too dear"}, "'pay' was denied: too dear"),
        ({"approve": False}, "'pay' was denied: the user said no"),
    ],
)
@pytest.mark.parametrize("mode", ERAS)
async def test_accepting_the_form_allows_what_it_shows_unless_a_refusal_is_chosen(
    open_client, mode, content, printed: str
) -> None:
    async def answer(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=content)

    code = (
        "try:\n    print(*await asyncio.gather(*(pay(n=n) for n in range(3))))\n"
        "except ToolError as error:\n    print(error)"
    )
    async with open_client(pay, policy=Policy(ask=["pay"]), mode=mode, elicitation_callback=answer) as client:
        result = await run(client, code)

    assert texts(result) == [f"[Script executed successfully]\n{printed}\n"]


async def test_a_gather_is_asked_in_one_round_and_an_answer_for_some_calls_asks_again_for_the_rest(open_client) -> None:
    rounds: list[int] = []
    code = {"code": "print(sum(await asyncio.gather(*(pay(n=n) for n in range(12)))))"}
    async with open_client(pay, policy=Policy(ask=["pay"]), elicitation_callback=say_yes) as client:
        asked = await client.session.call_tool("execute_program", code, allow_input_required=True)
        while isinstance(asked, types.InputRequiredResult):
            keys = list(asked.input_requests or {})
            rounds.append(len(keys))
            content = {"decision": "tool", "calls": 5}
            answers = {keys[0]: types.ElicitResult(action="accept", content=content)}
            asked = await client.session.call_tool(
                "execute_program", code, input_responses=answers, request_state=asked.request_state,
                allow_input_required=True,
            )  # fmt: skip

    assert isinstance(asked, types.CallToolResult)
    assert (texts(asked), rounds) == (["[Script executed successfully]\n66\n"], [12, 7, 2])


async def test_the_older_era_has_no_rounds_and_no_limit_of_them(open_client) -> None:
    async with open_client(pay, policy=Policy(ask=["pay"]), mode="legacy", elicitation_callback=say_yes) as client:
        result = await run(client, "print([await pay(n=n) for n in range(12)])")

    assert texts(result) == [f"[Script executed successfully]\n{list(range(12))}\n"]


async def test_a_server_that_asks_after_ten_rounds_fails_its_call_with_the_reason(open_client) -> None:
    bridge = FakeBridge({"forms": Server("forms")})
    bridge.known.append(bridged("forms", "ask", asking(bridge)))
    async with open_client(bridge=bridge, elicitation_callback=say_yes) as client:
        code = "for n in range(11):\n    try:\n        await mcp__forms__ask(n=n)\n    except ToolError as error:\n        print(n, error)"
        result = await run(client, code)

    assert texts(result) == [f"[Script executed successfully]\n10 {NO_MORE}\n"]


async def test_questions_that_come_one_shortly_after_another_are_asked_in_one_round(open_client) -> None:
    bridge = FakeBridge({"forms": Server("forms")})
    bridge.known.append(bridged("forms", "ask", asking(bridge, seconds_apart=0.002)))
    code = "print(len(await asyncio.gather(*(mcp__forms__ask(n=n) for n in range(12)))))"
    async with open_client(bridge=bridge, elicitation_callback=say_yes) as client:
        asked = await client.session.call_tool("execute_program", {"code": code}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        result = await answered(client, code, asked)

    assert len(asked.input_requests or {}) == 12
    assert texts(result) == ["[Script executed successfully]\n12\n"]


async def test_a_session_whose_program_waits_for_an_answer_says_so_to_the_next_one_at_once(open_client) -> None:
    code = {"code": "print(await pay(n=1))", "session": "work"}
    async with open_client(pay, policy=Policy(ask=["pay"]), elicitation_callback=say_yes) as client:
        asked = await client.session.call_tool("execute_program", code, allow_input_required=True)
        held = await run(client, "print('next')", session="work")
        elsewhere = await run(client, "print('next')", session="other")
        result = await answered(client, code, asked)
        free = await run(client, "print('next')", session="work")

    [text] = texts(held)
    head, _, rest = text.partition("held by execution '")
    assert head == "[Script execution failed]\nUsageError: this session is "
    assert rest.partition("'")[2] == (
        ", which waits for an answer to its question; answer that, or give this program another session"
    )
    assert texts(elsewhere) == texts(free) == ["[Script executed successfully]\nnext\n"]
    assert texts(result) == ["[Script executed successfully]\n1\n"]


async def test_a_program_that_already_waits_for_its_session_is_told_when_the_one_before_it_asks(open_client) -> None:
    go_on = asyncio.Event()

    async def think() -> None:
        await go_on.wait()

    code = {"code": "await think()\nprint(await pay(n=1))", "session": "work"}
    async with open_client(pay, think, policy=Policy(ask=["pay"]), elicitation_callback=say_yes) as client:
        first = asyncio.create_task(client.session.call_tool("execute_program", code, allow_input_required=True))
        second = asyncio.create_task(run(client, "print('next')", session="work"))
        await asyncio.sleep(0)
        go_on.set()
        told = texts(await second)
        result = await answered(client, code, await first)

    assert told[0].startswith("[Script execution failed]\nUsageError: this session is held by execution ")
    assert texts(result) == ["[Script executed successfully]\n1\n"]


@pytest.mark.parametrize("mode", ERAS)
async def test_programs_of_one_session_still_take_turns_where_nobody_is_asked(open_client, mode) -> None:
    async with open_client(pay, mode=mode) as client:
        results = await asyncio.gather(*(run(client, "print(await pay(n=1))", session="work") for _ in range(3)))

    assert [texts(one) for one in results] == [["[Script executed successfully]\n1\n"]] * 3


def asking(bridge: FakeBridge, seconds_apart: float = 0.0) -> Any:
    async def ask(n: int) -> str:
        assert bridge.outer is not None
        await asyncio.sleep(n * seconds_apart)
        return (await bridge.outer.elicit(FORM, server="forms", execution_id="")).action

    return ask


async def answered(client: Client, arguments: Any, asked: Any) -> types.CallToolResult:
    assert isinstance(asked, types.InputRequiredResult)
    yes = types.ElicitResult(action="accept", content={"decision": "call"})
    result = await client.session.call_tool(
        "execute_program",
        arguments if isinstance(arguments, dict) else {"code": arguments},
        input_responses=dict.fromkeys(asked.input_requests or {}, yes),
        request_state=asked.request_state,
        allow_input_required=True,
    )
    assert isinstance(result, types.CallToolResult), result
    return result
