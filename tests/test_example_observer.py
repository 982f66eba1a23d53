"""The example of a listener, as a user would run it."""

import io
from pathlib import Path

import pytest

from examples.observer.__main__ import main
from examples.observer.observer import LivePrinter
from toolfold import Paused, Reply, Runtime, ToolSpec, tool
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

ROOT = Path(__file__).parent.parent


async def test_it_prints_each_event_of_a_program_with_the_lines_of_its_calls(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await main()

    assert capsys.readouterr().out == (
        "began on process\n"
        "line 1: price(ticker='ACME')\n"
        "price: 4 bytes\n"
        "line 1: price(ticker='INIT')\n"
        "price: 3 bytes\n"
        "stdout: total 20.0\n"
        "finished with 20.0\n"
    )


async def test_it_prints_pauses_questions_and_rejected_programs() -> None:
    out = io.StringIO()

    @tool
    async def delete(name: str) -> str:
        """Delete something."""
        return f"deleted {name}"

    ask = ToolSpec(name="ask", python_name="ask", source="caller")
    async with Runtime([delete], policy=Policy(ask=("delete",)), listeners=[LivePrinter(out)]) as runtime:
        step = await runtime.start("await asyncio.gather(ask(), delete(name='a'))", tools=[ask])
        assert isinstance(step, Paused)
        await runtime.resume(step.execution_id, [Reply(call_id=1, value="yes")], decisions={2: Decision(approved=True)})
        await runtime.run("await remove()")

    assert out.getvalue() == (
        "began on process\n"
        "line 1: ask()\n"
        "line 1: delete(name='a')\n"
        "needs a yes: delete(name='a')\n"
        "paused for 2 answers\n"
        "went on\n"
        "ask: 5 bytes\n"
        "ApprovalDecided\n"
        "delete: 11 bytes\n"
        "finished with ['yes', 'deleted a']\n"
        "rejected: no tool 'remove'; the tools are: delete, search_tools\n"
    )


def test_it_needs_nothing_but_public_modules() -> None:
    text = (ROOT / "examples/observer/observer.py").read_text("utf-8")

    assert [line for line in text.splitlines() if line.startswith(("import", "from"))] == [
        "import sys",
        "from dataclasses import dataclass, field",
        "from typing import TextIO",
        "from toolfold.events import (",
    ]
