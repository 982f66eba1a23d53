"""Runs the demo program and prints it, its output, its calls as a timeline, and what stayed out of the context."""

import asyncio
import sys
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

import toolfold
from examples.demo.tools import get_budget, get_expenses, list_people

_PROGRAM = Path(__file__).with_name("program.py")
_BAR_CELLS = 36
_WIDTH = 80
_NEXT = """\
.venv/bin/toolfold run --tools examples/demo/tools.py examples/demo/program.py
.venv/bin/toolfold runs           your runs; 'runs show ID' has each call of one
.venv/bin/toolfold doctor         what the sandbox can promise on this machine
README.md                         your own tools, MCP servers, HTTP, Python
make demo-console                 programs live in a page, http://127.0.0.1:8420"""


def main() -> int:
    """Print the page; the exit code says whether the program finished."""
    text = _PROGRAM.read_text(encoding="utf-8")
    console = Console(highlight=False, width=_WIDTH)
    try:
        outcome = asyncio.run(_run(text))
    except toolfold.EngineUnavailable as error:
        console.print(f"nothing ran: {error}", markup=False)
        return 3

    _title(console, "the program, as a language model writes it")
    console.print(Syntax(text.rstrip(), "python", theme="ansi_light", background_color="default", word_wrap=True))
    _title(console, "what goes back to the model")
    console.print(outcome.stdout.rstrip() or "(nothing)", markup=False)
    if outcome.problem is not None:
        console.print(str(outcome.problem), markup=False)
        return 1
    _title(console, f"its {len(outcome.calls)} tool calls, from the first to the last")
    console.print(_timeline(outcome))
    _title(console, "what that saves")
    _sum(console, outcome)
    _title(console, "next")
    console.print(_NEXT, markup=False)
    return 0


async def _run(text: str) -> toolfold.Outcome:
    async with toolfold.Runtime(tools=[list_people, get_expenses, get_budget]) as runtime:
        return await runtime.run(text)


def _title(console: Console, text: str) -> None:
    console.rule(f"[bold]{text}[/bold]", align="left")


def _timeline(outcome: toolfold.Outcome) -> Table:
    """One line for each tool: when its calls ran, all of them together."""
    table = Table(box=None, pad_edge=False, show_header=False)
    first = min(call.started_seconds for call in outcome.calls)
    last = max(call.started_seconds + call.seconds for call in outcome.calls)
    for name in dict.fromkeys(call.name for call in outcome.calls):
        calls = [call for call in outcome.calls if call.name == name]
        start = min(call.started_seconds for call in calls)
        end = max(call.started_seconds + call.seconds for call in calls)
        bar = _bar(start - first, end - start, max(last - first, 1e-9))
        size = sum(call.bytes_out for call in calls)
        table.add_row(name, f"{len(calls):>2} calls", f"{size:>9,} bytes", bar)
    return table


def _bar(start: float, length: float, whole: float) -> Text:
    before = min(int(start / whole * _BAR_CELLS), _BAR_CELLS - 1)
    cells = max(1, min(round(length / whole * _BAR_CELLS), _BAR_CELLS - before))
    return Text(" " * before + "━" * cells, style="green")


def _sum(console: Console, outcome: toolfold.Outcome) -> None:
    fetched = sum(call.bytes_out for call in outcome.calls)
    one_by_one = sum(call.seconds for call in outcome.calls)
    back = len(outcome.stdout.encode())
    saved = outcome.context_saved
    console.print(
        f"time     {outcome.seconds * 1000:,.0f} ms; one call after another would take {one_by_one * 1000:,.0f} ms"
    )
    console.print(f"context  {back:,} bytes went to the model instead of {fetched:,} (~{saved.tokens:,} tokens saved)")
    console.print(f"sandbox  engine {outcome.engine}, isolation {outcome.isolation}")
    for hint in outcome.hints:
        console.print(f"note     {hint}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
