"""Terminal view of a running program: its output as it is printed, and its calls as lanes over time."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from toolfold.errors import LedgerFailed
from toolfold.interfaces.cli.command_process import OutputFile
from toolfold.models import Outcome, ProgramOptions

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from toolfold.execution.program_output import Part
    from toolfold.interfaces.cli.execution_views import Waterfall
    from toolfold.ledger.base import Ledger
    from toolfold.runtime import Runtime


class OutputPrinter:
    """Writes parts of the output where they belong, each part once; `stdout` is a file descriptor."""

    def __init__(self, stdout: int) -> None:
        # The process' own file where it is that one: what cannot be written is told at its end.
        own_file = getattr(sys.stdout.buffer, "raw", None)
        file = own_file if isinstance(own_file, OutputFile) and stdout == 1 else OutputFile(stdout, "w", closefd=False)
        self._files = {"stdout": file, "stderr": OutputFile(2, "w", closefd=False)}
        self._offsets = {"stdout": 0, "stderr": 0}

    def add(self, stream: str, text: str, place: int) -> None:
        """Write text that begins at this place of its stream, in characters, but for the part already written."""
        overlap = self._offsets[stream] - place
        if overlap < 0 or overlap >= len(text):
            return
        self._offsets[stream] = place + len(text)
        drawing_area.clear()
        drawing_area.note_output(text)
        data = text[overlap:].encode(errors="replace")
        while data:
            data = data[self._files[stream].write(data) :]

    def rest_of(self, outcome: Outcome) -> Outcome:
        offsets = self._offsets
        stdout, stderr = outcome.stdout[offsets["stdout"] :], outcome.stderr[offsets["stderr"] :]
        return replace(outcome, stdout=stdout, stderr=stderr)


async def run_and_show(runtime: Runtime, ledger: Ledger, text: str, stdout: int, options: ProgramOptions) -> Outcome:
    """Run a program, show what it prints and, if it takes long, its calls; the outcome has the rest of its output."""
    execution = await runtime.start(text, background=True, options=options)
    printer = OutputPrinter(stdout)
    print_task = asyncio.ensure_future(_print_parts(execution.output(), printer))
    can_draw = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    draw_task = asyncio.ensure_future(draw(ledger, execution.id)) if can_draw else None
    try:
        outcome = await execution.wait()
        assert isinstance(outcome, Outcome), "whoever approves is asked here, and no tool is the caller's"
        await print_task
    except asyncio.CancelledError:
        await execution.cancel()
        raise
    finally:
        print_task.cancel()
        if draw_task is not None:
            draw_task.cancel()
            await asyncio.wait([draw_task])
    return printer.rest_of(outcome)


async def _print_parts(parts: AsyncIterator[Part], printer: OutputPrinter) -> None:
    async for part in parts:
        place = part.place.stdout if part.stream == "stdout" else part.place.stderr
        printer.add(part.stream, part.text, place - len(part.text))


# ----------------------------------------------------------------------------------------------------
# A long program at a terminal: its calls as lanes below what it prints, until it has ended.

_LONG_SECONDS: Final = 2.0
_FRAME_SECONDS: Final = 0.125


async def draw(ledger: Ledger, execution_id: str) -> None:
    """Draw an execution once it has run for two seconds, until this is cancelled."""
    await asyncio.sleep(_LONG_SECONDS)
    # In a thread: it takes longer than the program should wait for a reply.
    await asyncio.to_thread(importlib.import_module, "toolfold.interfaces.cli.execution_views")
    from rich.console import Console

    from toolfold.interfaces.cli.console_links import page_of
    from toolfold.interfaces.cli.execution_views import Waterfall

    # A drawing is missing then; whoever needs the ledger says why.
    with suppress(LedgerFailed):
        history = await ledger.load(execution_id)
        if history is None:
            return
        waterfall = Waterfall(history.start_record, page_of(ledger, execution_id), shows_output=False)
        console, place = Console(stderr=True, highlight=False), 0
        try:
            while story := await ledger.story(execution_id, after=place):
                place = story.place
                waterfall.take(story)
                drawing_area.draw(waterfall, console)
                await asyncio.sleep(_FRAME_SECONDS)
        finally:
            drawing_area.clear()


# ----------------------------------------------------------------------------------------------------
# The lower end of the terminal, where a long program's calls are drawn; whoever writes has it cleared first.


class DrawingArea:
    """One for the process, which has one terminal. A drawing comes again with its next frame."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._reservations = 0
        self._is_at_start = True

    def draw(self, waterfall: Waterfall, console: Console) -> None:
        """Draw the next frame, unless a question is open or the cursor is within a line."""
        if self._reservations or not self._is_at_start:
            return
        if self._live is not None:
            self._live.refresh()
            return
        from rich.live import Live

        # A new one each time: where the cursor stood for the last one is of no use any more.
        self._live = Live(waterfall, console=console, auto_refresh=False, transient=True)
        self._live.start(refresh=True)

    def clear(self) -> None:
        """Remove the drawing, before anything is written."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def note_output(self, text: str) -> None:
        self._is_at_start = text.endswith("\n")

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Draw nothing while a question is being answered."""
        self.clear()
        self._reservations += 1
        try:
            yield
        finally:
            self._reservations -= 1


drawing_area = DrawingArea()
