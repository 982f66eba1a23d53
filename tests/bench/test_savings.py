"""`make bench NAME=savings`: what depends on what, the programs it writes, and a replay in every way."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from inline_snapshot import snapshot

import toolfold
from bench.savings.conversation import Conversation
from bench.savings.counting import Assumed, Figures, Openings, counted
from bench.savings.dependence import needs, parts, waves
from bench.savings.programs import programs
from bench.savings.replay import (
    MIXED,
    ONE_REQUEST,
    PARALLEL,
    PROGRAM,
    PROGRAM_LAST,
    SEQUENTIAL,
    WAYS,
    Differs,
    Unfit,
    replay,
)
from bench.savings.task import GoldCall, Task, Turn, logged
from bench.savings.tokens import estimate
from toolfold.models import ToolSpec
from toolfold.tools.tool import Tool

FLIGHTS = (
    GoldCall("find_flights", {"to": "Oslo"}),
    GoldCall("seats", {"flight": "SK-4417"}),
    GoldCall("book", {"flight": "SK-4417", "seat": "12A"}),
)
REPLIES = ({"flights": [{"id": "SK-4417"}]}, "free: 12A, 31C", {"booking": 90210})


def test_a_call_depends_on_the_reply_that_has_its_argument() -> None:
    found = needs(FLIGHTS, REPLIES, known="Book me a seat to Oslo")

    assert [(need.as_is, need.read) for need in found] == [
        ({}, set()),
        ({"flight": (0, ("flights", 0, "id"))}, set()),
        ({}, {1}),  # the flight stands in an earlier call of its own; the seat only within a text
    ]
    assert waves(found) == [[0], [1], [2]]
    assert parts(found) == [[0, 1], [2]]


def test_what_the_user_said_makes_no_call_wait() -> None:
    found = needs(FLIGHTS, REPLIES, known="Book seat 12A of SK-4417 to Oslo")

    assert waves(found) == [[0, 1, 2]]


def test_a_program_passes_values_on_and_ends_where_a_model_must_read() -> None:
    found = needs(FLIGHTS, REPLIES, known="Book me a seat to Oslo")

    assert programs(FLIGHTS, found, "all") == snapshot(
        [
            """\
r1 = await find_flights(to='Oslo')
print(r1)
print(await seats(flight=r1['flights'][0]['id']))\
""",
            "print(await book(flight='SK-4417', seat='12A'))",
        ]
    )
    assert programs(FLIGHTS, found, "last") == snapshot(
        [
            """\
r1 = await find_flights(to='Oslo')
print(await seats(flight=r1['flights'][0]['id']))\
""",
            "print(await book(flight='SK-4417', seat='12A'))",
        ]
    )


class Counter:
    """One number that calls change."""

    def __init__(self) -> None:
        self.log: list[tuple[str, dict[str, Any], Any]] = []
        self._value = 0

    def tools(self) -> list[Tool]:
        return [logged(Tool(spec=SPEC, call=self._add), self.log)]

    async def _add(self, arguments: Mapping[str, Any]) -> Any:
        self._value += arguments["by"]
        return {"value": self._value}

    def state(self) -> Any:
        return self._value


class Forgetful(Counter):
    """Another start each time."""

    starts = 0

    def __init__(self) -> None:
        super().__init__()
        Forgetful.starts += 1
        self._value = Forgetful.starts


SPEC = ToolSpec(
    name="add",
    python_name="add",
    description="Add to the counter.",
    input_schema={"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]},
)


def task(world: Any, *amounts: Any) -> Task:
    turn = Turn(said="Count to 1303.", calls=[GoldCall("add", {"by": amount}) for amount in amounts])
    return Task(name="counting", group="toy", turns=[turn], specs=[SPEC], world=world)


async def test_every_way_makes_the_same_calls_in_the_requests_that_it_needs() -> None:
    # 1300 is known only from a reply, so the third call waits for the first two.
    counting = task(Counter, 900, 400, 1300)
    async with toolfold.Runtime(engine="process") as runtime:
        replayed = await replay(counting, runtime)

    replies = ['{"value":900}', '{"value":1300}', '{"value":2600}']
    calls = ['add{"by":900}', 'add{"by":400}', 'add{"by":1300}']
    pairs = list(zip(calls, replies, strict=True))
    text = "print(await add(by=900))\nr2 = await add(by=400)\nprint(r2)\nprint(await add(by=r2['value']))"
    shown = "{'value': 900}\n{'value': 1300}\n{'value': 2600}\n"
    assert replayed[SEQUENTIAL].turns == [[[pair] for pair in pairs]]
    assert replayed[PARALLEL].turns == [[pairs[:2], pairs[2:]]]
    assert replayed[ONE_REQUEST].turns == [[pairs]]
    program = (f"execute_program{json.dumps({'code': text}, separators=(',', ':'))}", shown)
    assert replayed[PROGRAM].turns == replayed[MIXED].turns == [[[program]]]
    assert replayed[PROGRAM_LAST].turns[0][0][0][1] == "{'value': 2600}\n"


async def test_the_requests_and_tokens_of_a_way_are_counted_with_all_that_was_before() -> None:
    small = task(Counter, 1, 2)
    async with toolfold.Runtime(engine="process") as runtime:
        replayed = await replay(small, runtime)

    assumed = Assumed(answer_tokens=10)
    openings = Openings(len)
    starts = {way: await openings.of(small, way) for way in WAYS}
    figures = {way: counted(small, replayed[way], starts[way], len, assumed).whole for way in WAYS}
    schema = '{"type":"object","properties":{"by":{"type":"integer"}},"required":["by"]}'
    opening = len(f'[{{"name":"add","description":"Add to the counter.","input_schema":{schema}}}]')
    call, reply, said = len('add{"by":1}'), len('{"value":1}'), len("Count to 1303.")
    first = opening + said
    second = first + 2 * call + 2 * reply
    assert figures[PARALLEL] == Figures(
        requests=2, input=first + second, cached=first, output=2 * call + 10, context=second + 10
    )
    assert figures[PARALLEL].price(assumed) == pytest.approx(second + 0.1 * first + 5 * (2 * call + 10))
    assert figures[PARALLEL].seconds(assumed) == pytest.approx(2 * 1.0 + 0.02 * (2 * call + 10))
    assert [figures[way].requests for way in WAYS] == [3, 2, 2, 2, 2, 2, 2]


async def test_a_way_that_does_something_else_is_found() -> None:
    async with toolfold.Runtime(engine="process") as runtime:
        with pytest.raises(Differs) as caught:
            await replay(task(Forgetful, 1), runtime)

    assert str(caught.value) == "counting, direct, parallel: call 1 differs from the calls one by one"


async def test_a_task_with_a_call_that_its_tool_refuses_is_left_out() -> None:
    async with toolfold.Runtime(engine="process") as runtime:
        with pytest.raises(Unfit) as caught:
            await replay(task(Counter, "many"), runtime)

    assert str(caught.value) == "counting: a call does not fit the schema of its tool"


def test_without_a_tokenizer_four_characters_are_a_token() -> None:
    assert [estimate(text) for text in ("", "abcd", "a" * 42)] == [0, 1, 10]


def test_a_conversation_reads_all_of_itself_with_each_request() -> None:
    conversation = Conversation(opening=1_000)

    conversation.say(10)
    conversation.ask([(5, 200)])  # reads 1,010
    conversation.ask([(3, 50), (4, 60)])  # reads 1,215, of which 1,010 are known
    conversation.answer(20)  # reads 1,332, of which 1,215 are known
    conversation.say(7)
    conversation.answer(30)  # reads 1,359, of which 1,332 are known

    assert (conversation.requests, conversation.written, conversation.context) == (4, 62, 1_389)
    assert (conversation.read, conversation.cached) == (1_010 + 1_215 + 1_332 + 1_359, 1_010 + 1_215 + 1_332)
