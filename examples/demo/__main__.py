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
_BAR_CELLS = 48


def main() -> int:
    """Print the page; the exit code says whether the program finished."""
    text = _PROGRAM.read_text(encoding="utf-8")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
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
    _title(console, f"its {len(outcome.calls)} tool calls")
    console.print(_timeline(outcome))
    _title(console, "the sum")
    _sum(console, outcome)
    return 0


async def _run(text: str) -> toolfold.Outcome:
    async with toolfold.Runtime(tools=[list_people, get_expenses, get_budget]) as runtime:
        return await runtime.run(text)


def _title(console: Console, text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}[/bold]", align="left")


def _timeline(outcome: toolfold.Outcome) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("call", "arguments", "ms", "bytes", "from the first call to the last"):
        table.add_column(title, justify="right" if title in ("ms", "bytes") else "left")
    first = min(call.started_seconds for call in outcome.calls)
    last = max(call.started_seconds + call.seconds for call in outcome.calls)
    for call in outcome.calls:
        arguments = ", ".join(f"{value}" for value in call.arguments.values())
        bar = _bar(call.started_seconds - first, call.seconds, max(last - first, 1e-9))
        table.add_row(call.name, Text(arguments), f"{call.seconds * 1000:.0f}", f"{call.bytes_out:,}", bar)
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
    console.print(f"{len(outcome.calls)} tool calls in one program, {outcome.seconds * 1000:.0f} ms")
    console.print(f"one after another the tools alone take {one_by_one * 1000:.0f} ms, and each call is a model turn")
    console.print(f"{fetched:,} bytes of replies; {back:,} bytes went back to the model")
    console.print(
        f"{saved.bytes:,} bytes of calls and replies stayed out of the model's context (~{saved.tokens:,} tokens)"
    )
    console.print(f"engine {outcome.engine}, isolation {outcome.isolation}")
    for hint in outcome.hints:
        console.print(f"note: {hint}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
