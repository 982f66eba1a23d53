"""Approvals that stand for further calls of one program: asked once, on record with who gave them, gone with it."""

import asyncio
from typing import Any

import pytest

from toolfold import Outcome, Paused, Runtime, tool
from toolfold.errors import UsageError
from toolfold.events import ApprovalAsked, ApprovalDecided, RuntimeEvent
from toolfold.ledger.base import DecisionEntry, Ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.models import Call, ToolSpec
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

LOOP = "for n in range(50):\n    await write(row=n)\n"
POLICY = Policy(ask=["write", "drop"])


class Table:
    """Two tools that need a yes, and somebody who gives it."""

    def __init__(self, *decisions: Decision) -> None:
        self.rows: list[int] = []
        self.asked: list[Call] = []
        self.told: list[RuntimeEvent] = []
        self._decisions = iter(decisions)

    async def approve(self, call: Call, _: ToolSpec) -> Decision:
        self.asked.append(call)
        return next(self._decisions)

    def runtime(self, ledger: Ledger | None = None, **options: Any) -> Runtime:
        @tool
        async def write(row: int) -> int:
            """Write a row."""
            self.rows.append(row)
            return row

        @tool
        async def drop() -> None:
            """Drop the table."""

        options = {"policy": POLICY, "listeners": [self.told.append], **options}
        return Runtime([write, drop], ledger=ledger or MemoryLedger(), **options)


async def decided(runtime: Runtime, execution_id: str) -> list[DecisionEntry]:
    history = await runtime._ledger.load(execution_id)
    assert history is not None
    return [entry for entry in history.entries if isinstance(entry, DecisionEntry)]


async def test_one_yes_for_a_loop_of_fifty_writes_is_asked_once_and_is_the_right_of_each() -> None:
    table = Table(Decision(approved=True, covers="tool", by="ann"))
    async with table.runtime(approve=table.approve) as runtime:
        outcome = await runtime.run(LOOP)
        rights = await decided(runtime, outcome.execution_id)

    assert (outcome.status, table.rows) == ("finished", list(range(50)))
    assert [call.id for call in table.asked] == [1]
    assert rights == [
        DecisionEntry(n, approved=True, by="ann", covers="tool", under=0 if n == 1 else 1) for n in range(1, 51)
    ]
    asked = [event for event in table.told if isinstance(event, ApprovalAsked)]
    told = [event for event in table.told if isinstance(event, ApprovalDecided)]
    assert [event.call.id for event in asked] == [1]
    assert [(event.call.id, event.by, event.covers, event.under) for event in told] == [
        (n, "ann", "tool", 0 if n == 1 else 1) for n in range(1, 51)
    ]


async def test_a_yes_for_equal_arguments_asks_again_for_others() -> None:
    table = Table(Decision(approved=True, covers="arguments"), Decision(approved=False, reason="not that row"))
    program = "for _ in range(50):\n    await write(row=7)\nawait write(row=8)\n"
    async with table.runtime(approve=table.approve) as runtime:
        outcome = await runtime.run(program)

    assert [call.id for call in table.asked] == [1, 51]
    assert table.rows == [7] * 50
    assert outcome.problem is not None
    assert outcome.problem.message == "ToolError: 'write' was denied: not that row"


async def test_a_yes_for_a_number_of_calls_is_used_up_by_them() -> None:
    yes = Decision(approved=True, covers="tool", calls=20)
    table = Table(yes, yes, yes)
    async with table.runtime(approve=table.approve) as runtime:
        await runtime.run(LOOP)

    assert [call.id for call in table.asked] == [1, 21, 41]
    assert table.rows == list(range(50))


async def test_it_stands_for_its_own_tool_only_and_a_no_may_stand_too() -> None:
    table = Table(Decision(approved=True, covers="tool"), Decision(approved=False, covers="tool", reason="never"))
    program = """
await write(row=1)
said = []
for _ in range(3):
    try:
        await drop()
    except ToolError as error:
        said.append(str(error))
said
"""
    async with table.runtime(approve=table.approve) as runtime:
        outcome = await runtime.run(program)

    assert outcome.value == ["'drop' was denied: never"] * 3
    assert [call.tool for call in table.asked] == ["write", "drop"]


async def test_a_rerun_does_not_inherit_it() -> None:
    table = Table(Decision(approved=True, covers="tool"), Decision(approved=False, reason="asked again"))
    async with table.runtime(approve=table.approve) as runtime:
        first = await runtime.run("await write(row=1)\nawait write(row=2)\nraise ValueError()")
        second = await runtime.run("await write(row=3)", rerun_of=first.execution_id)

    assert table.rows == [1, 2]
    assert second.problem is not None
    assert second.problem.message == "ToolError: 'write' was denied: asked again"


async def test_a_budget_still_counts() -> None:
    table = Table(Decision(approved=True, covers="tool"))
    policy = Policy(ask=["write"], max_calls={"write": 3})
    async with table.runtime(approve=table.approve, policy=policy) as runtime:
        outcome = await runtime.run(LOOP)

    assert table.rows == [0, 1, 2]
    assert outcome.problem is not None
    assert outcome.problem.message == "ToolError: 'write' is out of budget: 3 of 3 calls used in this program"


async def test_at_a_pause_one_yes_sets_the_whole_gather_free_but_for_what_was_decided_itself() -> None:
    table = Table()
    program = "await asyncio.gather(*(write(row=n) for n in range(5)), return_exceptions=True)\nawait write(row=9)"
    async with table.runtime() as runtime:
        step = await runtime.start(program)
        assert isinstance(step, Paused)
        decisions = {2: Decision(approved=True, covers="tool", by="ann"), 4: Decision(approved=False, by="ann")}
        end = await runtime.resume(step.execution_id, decisions=decisions)
        rights = await decided(runtime, step.execution_id)

    assert isinstance(end, Outcome)
    assert sorted(table.rows) == [0, 1, 2, 4, 9]
    assert sorted((right.call_id, right.approved, right.under) for right in rights) == [
        (1, True, 2), (2, True, 0), (3, True, 2), (4, False, 0), (5, True, 2), (6, True, 2),
    ]  # fmt: skip


async def test_a_callback_that_is_asked_for_a_whole_gather_need_answer_only_once() -> None:
    table = Table()
    answered = asyncio.Event()
    left: list[int] = []

    async def approve(call: Call, _: ToolSpec) -> Decision:
        if call.id == 3:
            return Decision(approved=True, covers="tool")
        try:
            await answered.wait()
        except asyncio.CancelledError:
            left.append(call.id)
            raise
        raise AssertionError("nobody answers this one")

    async with table.runtime(approve=approve) as runtime:
        outcome = await runtime.run("len(await asyncio.gather(*(write(row=n) for n in range(5))))")

    assert (outcome.value, sorted(table.rows), sorted(left)) == (5, [0, 1, 2, 3, 4], [1, 2, 4, 5])


async def test_it_stands_on_in_another_process_for_as_many_calls_as_are_left() -> None:
    table, ledger = Table(), MemoryLedger()
    program = (
        "for n in range(3):\n    await write(row=n)\nawait drop()\nfor n in range(3, 6):\n    await write(row=n)\n"
    )
    async with table.runtime(ledger) as runtime:
        step = await runtime.start(program)
        yes = Decision(approved=True, covers="tool", calls=5, by="ann")
        step = await runtime.resume(step.execution_id, decisions={1: yes})
        assert isinstance(step, Paused)
        assert [call.tool for call in step.approvals] == ["drop"]
    async with table.runtime(ledger) as runtime:
        step = await runtime.resume(step.execution_id, decisions={4: Decision(approved=True)})
        assert isinstance(step, Paused)
        rights = await decided(runtime, step.execution_id)

    assert [(call.id, call.arguments) for call in step.approvals] == [(7, {"row": 5})]
    assert table.rows == [0, 1, 2, 3, 4]
    assert [(right.call_id, right.by, right.under) for right in rights] == [
        (1, "ann", 0), (2, "ann", 1), (3, "ann", 1), (4, "", 0), (5, "ann", 1), (6, "ann", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"covers": "all"}, "a decision covers 'call', 'arguments' or 'tool', got 'all'"),
        ({"covers": "tool", "calls": 0}, "calls is 0; give 1 or more, and what it covers: 'arguments' or 'tool'"),
        ({"calls": 5}, "calls is 5; give 1 or more, and what it covers: 'arguments' or 'tool'"),
        (
            {"covers": "tool", "arguments": {"row": 1}},
            "a decision that changes arguments covers one call, not 'tool'",
        ),
    ],
)
def test_a_decision_that_says_nonsense_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Decision(approved=True, **wrong)

    assert str(caught.value) == says
