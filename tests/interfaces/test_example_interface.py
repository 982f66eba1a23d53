"""`examples/interface`: an interface of somebody else, on what the runtime offers to all."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.interface.__main__ import pay
from examples.interface.line_interface import LineInterface
from toolfold import Runtime
from toolfold.tools.policy import Policy


async def talk(*lines: Any) -> tuple[list[Any], tuple[str, ...]]:
    """What the interface says to these lines, and the executions that are left when the client has gone."""
    said: list[Any] = []
    told: Iterator[str] = iter([line if isinstance(line, str) else json.dumps(line) for line in lines])

    async def read() -> str:
        return next(told, "")

    async with Runtime([pay], policy=Policy(ask=["pay"])) as runtime:
        await LineInterface(runtime, read, lambda line: said.append(json.loads(line))).serve()
        return said, runtime.executions.ids


async def test_a_program_pauses_for_its_client_and_for_a_yes() -> None:
    program = {"program": "await pay(to=await whom(), amount=7)", "tools": ["whom"]}

    said, left = await talk(program, {"replies": {"1": "ann"}}, {"decisions": {"2": True}})

    asked = {"id": 2, "tool": "pay", "arguments": {"to": "ann", "amount": 7}}
    assert said == [
        {"calls": [{"id": 1, "tool": "whom", "arguments": {}}], "approvals": []},
        {"calls": [], "approvals": [asked]},
        {"status": "finished", "value": "7 to ann", "stdout": "", "problem": None},
    ]
    assert left == ()


async def test_calls_and_questions_that_come_together_are_one_line_and_a_no_is_read_by_the_program() -> None:
    text = """
import asyncio
replies = await asyncio.gather(whom(), pay(to="eve", amount=1), return_exceptions=True)
[str(reply) for reply in replies]
"""

    said, _ = await talk({"program": text, "tools": ["whom"]}, {"replies": {"1": "ann"}, "decisions": {"2": False}})

    assert said == [
        {
            "calls": [{"id": 1, "tool": "whom", "arguments": {}}],
            "approvals": [{"id": 2, "tool": "pay", "arguments": {"to": "eve", "amount": 1}}],
        },
        {"status": "finished", "value": ["ann", "'pay' was denied"], "stdout": "", "problem": None},
    ]


async def test_a_line_that_answers_nothing_is_asked_again_and_mistakes_are_told() -> None:
    said, _ = await talk(
        {"program": "await whom()", "tools": ["whom"]}, "not JSON", {"replies": {"9": "x"}}, {"replies": {"1": "ann"}},
        {"program": "1 +"},
    )  # fmt: skip

    question = {"calls": [{"id": 1, "tool": "whom", "arguments": {}}], "approvals": []}
    assert said == [
        question,
        {"status": "error", "code": "usage", "error": "send one JSON object in each line"},
        question,
        {"status": "finished", "value": "ann", "stdout": "", "problem": None},
        {"status": "rejected", "value": None, "stdout": "", "problem": "invalid syntax"},
    ]


async def test_a_client_that_leaves_a_paused_program_leaves_no_guest() -> None:
    said, left = await talk({"program": "await whom()", "tools": ["whom"]})

    assert (len(said), left) == (1, ())


def test_the_interface_has_at_most_80_lines() -> None:
    interface = Path(__file__).parents[2] / "examples" / "interface" / "line_interface.py"

    assert len(interface.read_text(encoding="utf-8").splitlines()) <= 80
