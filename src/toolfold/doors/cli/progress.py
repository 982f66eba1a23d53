"""A long program at a terminal: its calls as lanes below what it prints, until it has ended."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from toolfold.doors.cli.stage import stage
from toolfold.errors import LedgerFailed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from toolfold.doors.cli.waterfall import Waterfall
    from toolfold.ledger.base import Ledger

_LONG_SECONDS: Final = 2.0
_FRAME_SECONDS: Final = 0.125


def can_draw() -> bool:
    """Whether somebody sees a drawing."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


async def draw(ledger: Ledger, execution_id: str) -> None:
    """Draw an execution once it has run for two seconds, until this is cancelled."""
    try:
        await _draw(ledger, execution_id)
    finally:
        stage.clear()


async def _draw(ledger: Ledger, execution_id: str) -> None:
    await asyncio.sleep(_LONG_SECONDS)
    # In a thread: it takes longer than the program should wait for a reply.
    await asyncio.to_thread(importlib.import_module, "toolfold.doors.cli.waterfall")
    from rich.console import Console  # noqa: PLC0415 - most programs are over before

    from toolfold.doors.cli.consoles import page_of  # noqa: PLC0415 - as above
    from toolfold.doors.cli.waterfall import Waterfall  # noqa: PLC0415 - as above

    # A drawing is missing then; whoever needs the ledger says why.
    with suppress(LedgerFailed):
        history = await ledger.load(execution_id)
        if history is None:
            return
        fall = Waterfall(history.begun, page_of(ledger, execution_id), shows_output=False)
        frames = _Frames(fall, Console(stderr=True, highlight=False))
        place = 0
        while story := await ledger.story(execution_id, after=place):
            place = story.place
            fall.take(story)
            frames.next()
            await asyncio.sleep(_FRAME_SECONDS)


class _Frames:
    """One drawing after the other; what is printed meanwhile goes above it."""

    def __init__(self, fall: Waterfall, console: Console) -> None:
        self._fall = fall
        self._console = console
        self._live: Live | None = None

    def next(self) -> None:
        """Draw it as it is now, unless somebody else has the terminal."""
        if not stage.is_free:
            return
        if self._live is not None and self._live.is_started:
            self._live.refresh()
            return
        from rich.live import Live  # noqa: PLC0415 - as above

        # A new one each time: where the cursor stood for the last one is of no use any more.
        self._live = Live(self._fall, console=self._console, auto_refresh=False, transient=True)
        self._live.start(refresh=True)
        stage.taken(self._live.stop)
