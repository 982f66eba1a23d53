"""Terminal view of a running program: its output as it is printed, and its calls as lanes over time."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from toolfold.errors import LedgerFailed
from toolfold.models import Outcome, ProgramOptions

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from toolfold.execution.output import Part
    from toolfold.interfaces.cli.history import Waterfall
    from toolfold.ledger.base import Ledger
    from toolfold.runtime import Runtime


class OutputPrinter:
    """Writes parts of the output where they belong, each part once; `stdout` is a file descriptor."""

    def __init__(self, stdout: int) -> None:
        self._handles = {"stdout": stdout, "stderr": 2}
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
            data = data[os.write(self._handles[stream], data) :]

    def rest_of(self, outcome: Outcome) -> Outcome:
        """The outcome without the output that was shown."""
        offsets = self._offsets
        stdout, stderr = outcome.stdout[offsets["stdout"] :], outcome.stderr[offsets["stderr"] :]
        return replace(outcome, stdout=stdout, stderr=stderr)


def is_live(stdout: int, *, as_json: bool) -> bool:
    return not as_json and os.isatty(stdout)


async def run_and_show(runtime: Runtime, ledger: Ledger, text: str, stdout: int, options: ProgramOptions) -> Outcome:
    """Run a program, show what it prints and, if it takes long, its calls; the outcome has the rest of its output."""
    execution = await runtime.start(text, background=True, options=options)
    printer = OutputPrinter(stdout)
    print_task = asyncio.ensure_future(_print_parts(execution.output(), printer))
    draw_task = asyncio.ensure_future(draw(ledger, execution.id)) if can_draw() else None
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


def can_draw() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


async def draw(ledger: Ledger, execution_id: str) -> None:
    """Draw an execution once it has run for two seconds, until this is cancelled."""
    await asyncio.sleep(_LONG_SECONDS)
    # In a thread: it takes longer than the program should wait for a reply.
    await asyncio.to_thread(importlib.import_module, "toolfold.interfaces.cli.history")
    from rich.console import Console  # noqa: PLC0415 - most programs are over before

    from toolfold.interfaces.cli.console_links import page_of  # noqa: PLC0415 - as above
    from toolfold.interfaces.cli.history import Waterfall  # noqa: PLC0415 - as above

    # A drawing is missing then; whoever needs the ledger says why.
    with suppress(LedgerFailed):
        history = await ledger.load(execution_id)
        if history is None:
            return
        waterfall = Waterfall(history.start_record, page_of(ledger, execution_id), shows_output=False)
        frames = _Frames(waterfall, Console(stderr=True, highlight=False))
        place = 0
        try:
            while story := await ledger.story(execution_id, after=place):
                place = story.place
                waterfall.take(story)
                frames.next()
                await asyncio.sleep(_FRAME_SECONDS)
        finally:
            drawing_area.clear()


class _Frames:
    """One drawing after the other; what is printed meanwhile goes above it."""

    def __init__(self, waterfall: Waterfall, console: Console) -> None:
        self._waterfall = waterfall
        self._console = console
        self._live: Live | None = None

    def next(self) -> None:
        if not drawing_area.is_free:
            return
        if self._live is not None and self._live.is_started:
            self._live.refresh()
            return
        from rich.live import Live  # noqa: PLC0415 - as above

        # A new one each time: where the cursor stood for the last one is of no use any more.
        self._live = Live(self._waterfall, console=self._console, auto_refresh=False, transient=True)
        self._live.start(refresh=True)
        drawing_area.register(self._live.stop)


# ----------------------------------------------------------------------------------------------------
# The lower end of the terminal, where a long program's calls are drawn; whoever writes has it cleared first.


class DrawingArea:
    """One for the process, which has one terminal. A drawing comes again with its next frame."""

    def __init__(self) -> None:
        self._clear: Callable[[], None] | None = None
        self._reservations = 0
        self._is_at_start = True

    @property
    def is_free(self) -> bool:
        """No question is open, and the cursor is at the beginning of a line."""
        return not self._reservations and self._is_at_start

    def register(self, clear: Callable[[], None]) -> None:
        """Set the function that removes the drawing."""
        self._clear = clear

    def clear(self) -> None:
        """Remove the drawing, before anything is written."""
        if self._clear is not None:
            clear, self._clear = self._clear, None
            clear()

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
