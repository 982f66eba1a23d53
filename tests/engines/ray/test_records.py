"""What a node tells of calls that it serves itself: one record for a call and its reply, in the order of the program."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.engines.ray.local_nodes import LocalNode, LocalNodes
from toolfold import Runtime, tool
from toolfold.engines.base import EngineTools, ReplayTape, Served, ServedCall
from toolfold.engines.ray import RayEngine, wire_messages
from toolfold.engines.ray.node import CallRecords
from toolfold.engines.ray.run import Diverged, NodeServedCalls, RunHistory
from toolfold.errors import ToolFailed
from toolfold.events import ProgramPrinted, RuntimeEvent, ToolCalled, ToolReplied
from toolfold.ledger.base import CallEntry, Entry, ReplyEntry
from toolfold.ledger.memory import MemoryLedger
from toolfold.models import Call, Limits, Reply
from toolfold.protocol.codec import Violation

turns: dict[str, asyncio.Event] = {}


@tool(read_only=True)
async def look_up(n: int) -> int:
    """Ten times as much."""
    return n * 10


@tool(read_only=True)
async def drain(items: list[int]) -> int:
    """Takes what it was given out of the list."""
    return sum(items.pop() for _ in range(len(items)))


@tool(read_only=True)
async def broken() -> None:
    """Fails."""
    raise ToolFailed("out of paper")


@tool(read_only=True)
async def last() -> str:
    """Answers after the one that was called after it."""
    await turns["other"].wait()
    return "last"


@tool(read_only=True)
async def first() -> str:
    """Lets the other one answer."""
    turns["other"].set()
    return "first"


async def save(n: int) -> int:
    """The runtime's."""
    return n


TOOLS = [look_up, drain, broken, last, first, save]
ON_NODES = ["look_up", "drain", "broken", "last", "first"]

Seen = tuple[Any, list[Any], list[Any]]


async def watched(text: str, **options: Any) -> Seen:
    """What the program returns, what listeners hear of it, and its calls on record, without times."""
    turns["other"] = asyncio.Event()
    heard: list[Any] = []
    ledger = MemoryLedger()
    async with Runtime(
        TOOLS, listeners=[lambda event: heard.append(_heard(event))], ledger=ledger, **options
    ) as runtime:
        outcome = await runtime.run(text)
        history = await ledger.load(outcome.execution_id)
    assert history is not None
    return outcome.value, [one for one in heard if one is not None], [_kept(entry) for entry in history.entries]


async def on_a_node(text: str) -> Seen:
    def own_tools() -> EngineTools:
        return Runtime(TOOLS)._own_tools(ON_NODES)

    return await watched(text, engine=RayEngine(LocalNodes(LocalNode("one")), wait_seconds=5, own_tools=own_tools))


def _heard(event: RuntimeEvent) -> Any:
    match event:
        case ToolCalled():
            return "called", event.call.id
        case ToolReplied():
            return "replied", event.record.id, event.record.error
        case ProgramPrinted():
            return "printed", event.text
    return None


def _kept(entry: Entry) -> Any:
    if not isinstance(entry, ReplyEntry):
        return entry
    record, reply = entry.record, entry.reply
    if reply.error is not None:
        return record.id, record.name, record.error, reply.value, reply.error
    facts = (record.id, record.name, record.arguments, record.bytes_in, record.bytes_out, record.attempts, record.line)
    return facts, reply.value, reply.size_bytes


async def test_record_and_listeners_have_the_calls_as_if_the_runtime_had_served_them() -> None:
    text = """
print("begins")
a = [await look_up(n=n) for n in range(3)]
print("goes on")
b = [await look_up(n=7), await save(n=4), await look_up(n=8)]
try:
    await broken()
except Exception as error:
    print(error)
[a, b]
"""
    there, here = await on_a_node(text), await watched(text, engine="process")

    assert there == here
    pair = ["called", "replied"]
    assert [one[0] for one in there[1]] == ["printed", *pair * 3, "printed", *pair * 4, "printed"]


async def test_calls_that_are_answered_out_of_turn_are_all_on_record() -> None:
    text = (
        "import asyncio\n"
        "await asyncio.gather(last(), look_up(n=1), first(), save(n=2))\n"
        "await asyncio.gather(*(look_up(n=n) for n in range(20)))"
    )
    value, heard, kept = await on_a_node(text)

    calls = sorted(one.call.id for one in kept if isinstance(one, CallEntry))
    replies = sorted(one[0][0] for one in kept if isinstance(one, tuple))
    assert value == [n * 10 for n in range(20)]
    assert (calls, replies) == ([*range(1, 25)], [*range(1, 25)])
    assert sorted(heard) == sorted(
        [*(("called", n) for n in range(1, 25)), *(("replied", n, None) for n in range(1, 25))]
    )


async def test_the_record_has_what_a_tool_was_given_and_not_what_it_made_of_it() -> None:
    value, _, kept = await on_a_node("await drain(items=[1, 2])")

    call = Call(id=1, tool="drain", arguments={"items": [1, 2]}, line=1)
    assert value == 3
    assert kept == [CallEntry(call), ((1, "drain", {"items": [1, 2]}, 15, 1, 1, 1), 3, 1)]


# as parts

PLACES = {"look_up": 0, "drain": 1}


def call(number: int) -> Call:
    return Call(id=number, tool="look_up", arguments={"n": number}, line=9, within=number - 1)


def told(noted: CallRecords) -> list[wire_messages.FromNode]:
    return [said for part in noted.take() for said in wire_messages.read(part)]


def record(number: int, place: int) -> wire_messages.WireRecord:
    return wire_messages.WireRecord(number, place, 0.5, "x", None, 3, 1, "", 0, {"n": number}, 9, number - 1)


def reply(number: int) -> Reply:
    return Reply(call_id=number, value="x", size_bytes=3)


def test_calls_in_a_row_are_one_part_with_their_tape() -> None:
    noted = CallRecords(PLACES)
    for number in (1, 2):
        noted.note_tape(ReplayTape((number,), (0.5, 7)))
        noted.note_calls([call(number)])
        assert noted.note_reply(reply(number), number - 1, 0.5) is None

    assert told(noted) == [wire_messages.WireAnswered([1, 2], [0.5, 7, 0.5, 7], False, [record(1, 0), record(2, 1)])]
    assert (told(noted), noted.size_bytes) == ([], 0)


def test_a_call_in_flight_is_told_and_its_reply_comes_apart() -> None:
    noted = CallRecords(PLACES)
    noted.note_calls([call(1), call(2), call(3)])
    noted.note_reply(reply(1), 0, 0.5)
    late = noted.note_reply(reply(3), 1, 0.5)
    before = told(noted)
    later = noted.note_reply(reply(2), 2, 0.5)

    assert before == [
        wire_messages.WireAnswered([], [], False, [record(1, 0)]),
        wire_messages.WireCalled([(2, 0, {"n": 2}, 9, 1), (3, 0, {"n": 3}, 9, 2)]),
    ]
    assert (late, later) == (
        wire_messages.WireServed(3, 1, 0.5, "x", None, 3, 1, ""),
        wire_messages.WireServed(2, 2, 0.5, "x", None, 3, 1, ""),
    )
    assert told(noted) == []


# not a word is trusted


def answered(*records: wire_messages.WireRecord) -> wire_messages.WireAnswered:
    return wire_messages.WireAnswered([], [], False, list(records))


@pytest.fixture
def tools() -> Any:
    return [one for one in Runtime(TOOLS).tools if one.name in ("look_up", "save")]


@pytest.fixture
def past() -> RunHistory:
    return RunHistory(ReplayTape())


@pytest.fixture
def own(past: RunHistory) -> NodeServedCalls:
    own = NodeServedCalls(past, Limits())
    own.names = frozenset({"look_up"})
    return own


def test_a_batch_is_heard_as_its_calls_and_replies(own: NodeServedCalls, past: RunHistory, tools: Any) -> None:
    heard = own.answered(wire_messages.WireAnswered([1, 1], [0.5], False, [record(1, 0), record(2, 1)]), tools)

    assert heard == Served([ServedCall(call(1), reply(1), 0.5), ServedCall(call(2), reply(2), 0.5)])
    assert (past.tape, past.replies, past.settled) == (ReplayTape((1, 1), (0.5,)), [reply(1), reply(2)], [1, 2])
    assert own.answered(answered(), tools) is None


def test_where_a_tool_failed_is_for_people_here_and_for_no_other_node(
    own: NodeServedCalls, past: RunHistory, tools: Any
) -> None:
    noted = CallRecords(PLACES)
    noted.note_calls([call(1)])
    noted.note_reply(Reply(call_id=1, error="no such row", traceback="line 7"), 0, 0.5)
    (said,) = told(noted)
    assert isinstance(said, wire_messages.WireAnswered)
    heard = own.answered(said, tools)

    assert heard is not None
    assert [one.reply.traceback for one in heard.calls] == ["line 7"]
    assert [(one.error, one.traceback) for one in past.replies] == [("no such row", "")]


FORGED: dict[str, Callable[[wire_messages.WireRecord], object]] = {
    "another's number": lambda one: setattr(one, "call_id", 2),
    "no tool": lambda one: setattr(one, "tool", 9),
    "less than no tool": lambda one: setattr(one, "tool", -1),
    "a tool of the runtime's": lambda one: setattr(one, "tool", 1),
    "out of order": lambda one: setattr(one, "place", 1),
    "large": lambda one: setattr(one, "size_bytes", 10**9),
    "no time": lambda one: setattr(one, "seconds", float("nan")),
    "no breaker": lambda one: setattr(one, "breaker", "maybe"),
    "less than no attempt": lambda one: setattr(one, "attempts", -1),
    "long": lambda one: setattr(one, "error", "x" * 100_000),
    "traceback of a success": lambda one: setattr(one, "traceback", "x"),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_a_record_that_no_node_writes_is_not_believed(
    forge: Callable[[wire_messages.WireRecord], object], own: NodeServedCalls, tools: Any
) -> None:
    forged = record(1, 0)
    forge(forged)
    with pytest.raises(Violation):
        own.answered(answered(forged), tools)


def test_a_record_of_a_node_without_tools_is_not_believed(past: RunHistory, tools: Any) -> None:
    with pytest.raises(Violation):
        NodeServedCalls(past, Limits()).answered(answered(record(1, 0)), tools)


def test_a_call_that_was_answered_is_not_answered_again_on_another_node(
    own: NodeServedCalls, past: RunHistory, tools: Any
) -> None:
    own.answered(answered(record(1, 0)), tools)
    past.begin_again()
    with pytest.raises(Violation):
        own.answered(answered(record(1, 0)), tools)


def test_another_call_than_before_is_no_replay(own: NodeServedCalls, past: RunHistory, tools: Any) -> None:
    own.answered(answered(record(1, 0)), tools)
    past.begin_again()
    other = record(1, 1)
    other.arguments = {"n": 7}
    with pytest.raises(Diverged):
        own.answered(answered(other), tools)


@pytest.mark.parametrize("value", [float("nan"), {"a": {1: 2}}, [float("inf")]])
def test_values_that_no_program_can_have_are_refused_in_records_too(value: Any) -> None:
    said = record(1, 0)
    said.value = value
    with pytest.raises(Violation):
        wire_messages.read(wire_messages.part(answered(said)))
