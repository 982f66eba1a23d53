"""One answer for a loop: what the form's choice covers, at clients of both eras, and what the ledger says of it."""

from typing import Any

import mcp_types as types
import pytest

from tests.interfaces.mcp.conftest import ERAS, run, texts
from toolfold.ledger.base import DecisionEntry
from toolfold.ledger.memory import MemoryLedger
from toolfold.tools.policy import Policy

LOOP = "for n in range(50):\n    await write(row=n)\nprint('done')"
ASKS = Policy(ask=["write"])


class Person:
    """Writes rows, and answers forms in turn."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.rows: list[int] = []
        self.asked: list[str] = []
        self._answers = iter(answers)

    async def write(self, row: int) -> int:
        """Write a row."""
        self.rows.append(row)
        return row

    async def answer(self, _: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content=next(self._answers))


async def rights(ledger: MemoryLedger) -> list[list[DecisionEntry]]:
    """Call by call, of each program, the latest first."""
    histories = [await ledger.load(one.execution_id) for one in await ledger.list()]
    return [[one for one in history.entries if isinstance(one, DecisionEntry)] for history in histories if history]


@pytest.mark.parametrize("mode", ERAS)
async def test_one_yes_for_a_loop_of_fifty_writes_is_asked_once_and_goes_with_its_program(open_client, mode) -> None:
    person = Person({"approve": True, "covers": "tool"}, {"approve": False, "reason": "asked again"})
    ledger = MemoryLedger()
    options = {"policy": ASKS, "ledger": ledger, "mode": mode, "elicitation_callback": person.answer}
    async with open_client(person.write, **options) as client:
        first = await run(client, LOOP)
        again = await run(client, LOOP)

    assert texts(first) == ["[Script executed successfully]\ndone\n"]
    assert person.rows == list(range(50))
    assert person.asked == ['A program wants to call write with {"row": 0}'] * 2
    assert texts(again)[0].endswith("ToolError: 'write' was denied: asked again")
    latest, earlier = await rights(ledger)
    (by,) = {one.by for one in earlier}
    assert earlier == [
        DecisionEntry(n, approved=True, by=by, covers="tool", under=0 if n == 1 else 1) for n in range(1, 51)
    ]
    assert by.startswith("mcp ")
    assert latest == [DecisionEntry(1, approved=False, reason="asked again", by=by)]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_yes_for_equal_arguments_asks_again_for_others(open_client, mode) -> None:
    person = Person({"approve": True, "covers": "arguments"}, {"approve": False, "reason": "not that row"})
    program = "for _ in range(50):\n    await write(row=7)\nawait write(row=8)\n"
    async with open_client(
        person.write, policy=ASKS, mode=mode, elicitation_callback=person.answer
    ) as client:  # fmt: skip
        result = await run(client, program)

    assert person.asked == [f'A program wants to call write with {{"row": {row}}}' for row in (7, 8)]
    assert person.rows == [7] * 50
    assert texts(result)[0].endswith("ToolError: 'write' was denied: not that row")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_yes_for_a_number_of_calls_is_used_up_by_them(open_client, mode) -> None:
    person = Person(*[{"approve": True, "covers": "tool", "calls": 20}] * 3)
    async with open_client(
        person.write, policy=ASKS, mode=mode, elicitation_callback=person.answer
    ) as client:  # fmt: skip
        await run(client, LOOP)

    assert person.asked == [f'A program wants to call write with {{"row": {row}}}' for row in (0, 20, 40)]
    assert person.rows == list(range(50))
