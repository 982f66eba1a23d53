"""The calls of a program as lanes over time, drawn while it runs: `toolfold run`, `toolfold runs show --follow`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.live import Live
from rich.text import Text

from toolfold.doors.cli.consoles import page_of
from toolfold.doors.cli.history import safe
from toolfold.ledger.base import Begun, Decided, Given, Made, Moment
from toolfold.ledger.listing import changes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderResult

    from toolfold.ledger.base import Entry, Ledger, Story

_MOST_LANES: Final = 12
_MOST_LINES: Final = 5
_MOST_NAMED: Final = 4
_PER_SECOND: Final = 8
_STYLES: Final = {"done": "blue", "open": "cyan", "failed": "red", "waits": "yellow", "recorded": "bright_black"}


@dataclass(slots=True)
class Bar:
    """One call."""

    tool: str
    at: float
    until: float | None = None
    kind: str = "open"


class Waterfall:
    """What is known of one execution; drawn anew for each width and moment."""

    def __init__(self, begun: Begun, page: str = "", *, shows_output: bool = True) -> None:
        self._begun = begun
        self._page = page
        self._shows_output = shows_output
        self._bars: dict[int, Bar] = {}
        self._state = "running"
        self._printed = ""
        self._end = 0.0

    def take(self, story: Story) -> None:
        """What was written since the last one."""
        for entry in story.entries:
            self._note(entry)
        self._state = story.state
        if story.outcome is not None:
            self._state, self._end = story.outcome.status, max(self._end, story.outcome.seconds)

    def _note(self, entry: Entry) -> None:
        match entry:
            case Made():
                bar = self._bars.setdefault(entry.call.id, Bar(entry.call.tool, entry.at))
                bar.kind = "open"
            case Moment(kind="asked"):
                self._bars[entry.call_id] = Bar(str(entry.facts.get("tool", "")), entry.at, kind="waits")
            case Decided() if entry.call_id in self._bars:
                self._bars[entry.call_id].kind = "open"
            case Given():
                record = entry.record
                kind = "failed" if record.error is not None else "recorded" if record.from_record else "done"
                until = record.started_seconds + record.seconds
                self._bars[record.id] = Bar(record.name, record.started_seconds, until, kind)
                self._end = max(self._end, until)
            case Moment(kind="printed") if self._shows_output:
                self._printed = (self._printed + entry.text)[-4000:]
            case _:
                pass

    @property
    def is_over(self) -> bool:
        """Nothing moves any more."""
        return self._state not in ("running", "paused")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The head, the lanes, what is open, and the last lines that were printed."""
        now = self._end if self.is_over else max(self._end, time.time() - self._begun.began_at)
        lanes = _lanes(self._bars.values(), now)
        width = max(20, options.max_width - 1)
        parts = [self._head(now)]
        if self._page:
            parts.append(Text(self._page, style="dim"))
        parts += [_line(lane, now, width) for lane in lanes[:_MOST_LANES]]
        if len(lanes) > _MOST_LANES:
            parts.append(Text(f"… and {len(lanes) - _MOST_LANES} more lanes", style="dim"))
        for kind, words in (("waits", "waits for an answer"), ("open", "in flight")):
            names = [f"{safe(bar.tool)} #{call_id}" for call_id, bar in self._bars.items() if bar.kind == kind]
            if names and not self.is_over:
                more = f", … {len(names)} in all" if len(names) > _MOST_NAMED else ""
                parts.append(Text(f"{words}: {', '.join(names[:_MOST_NAMED])}{more}", style=_STYLES[kind]))
        parts += [Text(safe(line)) for line in self._printed.splitlines()[-_MOST_LINES:]]
        for part in parts:
            part.truncate(width, overflow="ellipsis")
        yield Group(*parts)

    def _head(self, now: float) -> Text:
        bars = self._bars.values()
        done, failed = sum(bar.until is not None for bar in bars), sum(bar.kind == "failed" for bar in bars)
        words = [self._state, f"{done} calls done"]
        if done < len(bars) and not self.is_over:
            words.append(f"{len(bars) - done} in flight")
        if failed:
            words.append(f"{failed} failed")
        return Text(f"{safe(self._begun.execution_id)}  {', '.join(words)}, {now:.1f} s", style="bold")


async def followed(ledger: Ledger, begun: Begun, console: Console) -> None:
    """Draw it until it has ended; where nobody sees a drawing, only wait."""
    fall = Waterfall(begun, page_of(ledger, begun.execution_id))
    with Live(fall, console=console, refresh_per_second=_PER_SECOND, transient=True, auto_refresh=console.is_terminal):
        async for story in changes_of(ledger, begun.execution_id):
            fall.take(story)


def _lanes(bars: Iterable[Bar], now: float) -> list[list[Bar]]:
    """A call takes the first lane that is free: their number is the real concurrency."""
    lanes: list[list[Bar]] = []
    free: list[float] = []
    for bar in sorted(bars, key=lambda one: one.at):
        at = next((at for at, until in enumerate(free) if until <= bar.at), len(free))
        if at == len(free):
            free.append(0.0)
            lanes.append([])
        free[at] = now if bar.until is None else bar.until
        lanes[at].append(bar)
    return lanes


def _line(lane: list[Bar], now: float, width: int) -> Text:
    """One lane as cells; of calls that share a cell the last one is seen, and a failed one in any case."""
    cells: list[str] = [""] * width
    whole = max(now, 1e-9)
    for bar in lane:
        first = min(width - 1, int(bar.at / whole * width))
        last = max(first + 1, min(width, int((now if bar.until is None else bar.until) / whole * width)))
        for cell in range(first, last):
            cells[cell] = cells[cell] if cells[cell] == "failed" else bar.kind
    line = Text()
    for kind in cells:
        line.append("━" if kind else " ", style=_STYLES.get(kind, ""))
    return line
