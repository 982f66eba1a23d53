"""A program at a terminal: what it prints is there while it runs, its calls are drawn, and Ctrl-C ends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolfold.doors.cli import progress
from toolfold.doors.cli.stage import stage
from toolfold.models import Outcome

if TYPE_CHECKING:
    from toolfold.execution.background import BackgroundExecution
    from toolfold.execution.output import Part
    from toolfold.ledger.base import Ledger
    from toolfold.runtime import Runtime


class Shown:
    """Writes parts of the output where they belong, each part once.

    Args:
        stdout: The handle that the program's output goes to.
    """

    def __init__(self, stdout: int) -> None:
        self._handles = {"stdout": stdout, "stderr": 2}
        self._written = {"stdout": 0, "stderr": 0}

    def add(self, stream: str, text: str, place: int) -> None:
        """Text that begins at a place of its stream, in characters; what is known of it already is left out."""
        known = self._written[stream] - place
        if known < 0 or known >= len(text):
            return
        self._written[stream] = place + len(text)
        stage.clear()
        stage.wrote(text)
        data = text[known:].encode(errors="replace")
        while data:
            data = data[os.write(self._handles[stream], data) :]

    def rest_of(self, outcome: Outcome) -> Outcome:
        """The outcome without the output that was shown."""
        written = self._written
        stdout, stderr = outcome.stdout[written["stdout"] :], outcome.stderr[written["stderr"] :]
        return replace(outcome, stdout=stdout, stderr=stderr)


def is_live(stdout: int, *, as_json: bool) -> bool:
    """Whether a person looks at what the program prints."""
    return not as_json and os.isatty(stdout)


# Any: the options of `Runtime.start`.
async def run_shown(runtime: Runtime, ledger: Ledger, text: str, stdout: int, **options: Any) -> Outcome:
    """Run a program, show what it prints and, if it takes long, its calls; the outcome has the rest of its output."""
    execution = await runtime.start(text, background=True, **options)
    shown = Shown(stdout)
    showing = asyncio.ensure_future(_show(execution.output(), shown))
    drawing = asyncio.ensure_future(progress.draw(ledger, execution.id)) if progress.can_draw() else None
    try:
        outcome = await _end_of(execution)
        await showing
    except asyncio.CancelledError:
        await execution.cancel()
        raise
    finally:
        showing.cancel()
        if drawing is not None:
            drawing.cancel()
            await asyncio.wait([drawing])
    return shown.rest_of(outcome)


async def _end_of(execution: BackgroundExecution) -> Outcome:
    step = await execution.wait()
    assert isinstance(step, Outcome), "whoever approves is asked here, and no tool is the caller's"
    return step


async def _show(parts: AsyncIterator[Part], shown: Shown) -> None:
    async for part in parts:
        place = part.place.stdout if part.stream == "stdout" else part.place.stderr
        shown.add(part.stream, part.text, place - len(part.text))
