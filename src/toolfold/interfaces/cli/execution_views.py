"""Text views of recorded executions: lists, details, waterfalls, and the next step for a stopped program."""

from __future__ import annotations

import json
import shlex
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from toolfold.errors import ToolfoldError
from toolfold.interfaces.cli.command_process import Exit, complain, write_json
from toolfold.interfaces.cli.console_links import page_of
from toolfold.interfaces.cli.outcome_output import format_arguments, format_call, printable_name, shorten
from toolfold.ledger.base import (
    CallEntry,
    DecisionEntry,
    ExecutionHistory,
    ExecutionSummary,
    Ledger,
    Moment,
    ReplyEntry,
    StartRecord,
)
from toolfold.ledger.execution_summaries import NAMES, changes_of
from toolfold.models import Call, CallRecord, File, Json
from toolfold.outcome_views import call_as_json, value_as_json

if TYPE_CHECKING:
    from toolfold.ledger.base import Entry, Story


_T = TypeVar("_T")
_PIPE_WIDTH: Final = 120
_CALL_CELLS: Final = 46
_BAR_CELLS: Final = 24
_COVERS: Final = {
    "call": "for this call", "arguments": "for calls with these arguments", "tool": "for this tool in this program",
}  # fmt: skip


def print_list(summaries: Sequence[ExecutionSummary], *, as_json: bool, is_filtered: bool = False) -> int:
    """One line per execution, newest first."""
    if as_json:
        write_json([asdict(summary) for summary in summaries])
        return Exit.FINISHED
    if not summaries:
        message = "no matching executions in this ledger" if is_filtered else "no executions in this ledger yet"
        return complain(message, code=Exit.FINISHED)
    console = _console()
    width = max(len(escape_controls(summary.execution_id)) for summary in summaries)
    head = Text(f"{'id':<{width}}  {'began':<19}  {'status':<9}  {'calls':>5}  {'seconds':>8}  program")
    head.truncate(console.width, overflow="ellipsis")
    console.print(head)
    for summary in summaries:
        seconds = f"{summary.seconds:.3f}" if summary.state == "ended" else ""
        status = summary.status or summary.state
        line = Text(f"{escape_controls(summary.execution_id):<{width}}  {_moment(summary.began_at)}  ")
        line.append(f"{status:<9}", style=_style(status))
        line.append(f"  {summary.calls:>5}  {seconds:>8}  {escape_controls(summary.first_line)}")
        line.truncate(console.width, overflow="ellipsis")
        console.print(line)
    return Exit.FINISHED


def print_history(history: ExecutionHistory, *, full: bool, as_json: bool) -> int:
    if as_json:
        write_json(history_as_json(history, full=full))
    else:
        _print_text(history, full=full)
    return Exit.FINISHED


def history_as_json(history: ExecutionHistory, *, full: bool) -> dict[str, Json]:
    """The record as JSON values; replies only with `full`."""
    start_record = history.start_record
    calls = [
        {**call_as_json(entry.record), **({"reply": value_as_json(entry.reply.value)} if full else {})}
        for entry in _entries(history, ReplyEntry)
    ]
    return {
        "execution_id": start_record.execution_id,
        "state": history.state,
        "began_at": start_record.began_at,
        "engine": start_record.engine,
        "isolation": start_record.isolation,
        "session": start_record.session,
        "tenant": start_record.tenant,
        "rerun_of": start_record.rerun_of,
        **{name: getattr(start_record, name) for name in NAMES if getattr(start_record, name)},
        "program": start_record.program.sent_text,
        "tools": [spec.name for spec in start_record.tools],
        "calls": sorted(calls, key=lambda call: call["id"]),
        "open_calls": [
            {
                "id": call.id,
                "name": call.tool,
                "line": call.line,
                "within": call.within,
                "arguments": value_as_json(call.arguments),
            }
            for call in open_calls(history)
        ],
        "approvals": [msgspec.structs.asdict(entry) for entry in _entries(history, DecisionEntry)],
        "outcome": history.outcome.to_dict() if history.outcome is not None else None,
    }


def escape_controls(text: str) -> str:
    """Text of a program for a terminal: what would move the cursor or turn the line round is shown as its code."""
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _print_text(history: ExecutionHistory, *, full: bool) -> None:
    console = _console()
    _print_head(history, console)
    _print_part(console, "program", _number_lines(history.start_record.program.sent_text))
    outcome = history.outcome
    if outcome is not None:
        _print_part(console, "not made", "\n".join(outcome.unmade_calls))
        _print_part(console, "stdout", outcome.stdout)
        _print_part(console, "stderr", outcome.stderr)
        # An exception's traceback is already in the program's stderr.
        if outcome.problem is not None and outcome.problem.kind != "exception":
            _print_part(console, "problem", str(outcome.problem))
        if outcome.value is not None:
            _print_part(console, "value", _format_value(outcome.value, full=full))
        _print_part(console, "files", "\n".join(_file_lines(outcome.files)))
    if entries := sorted(_entries(history, ReplyEntry), key=lambda entry: entry.record.id):
        console.print("\ncalls", style="bold")
        _print_calls(entries, console, full=full)
    if decisions := _entries(history, DecisionEntry):
        console.print("\napprovals", style="bold")
        for line in _approvals(decisions):
            console.print(line)
    if unanswered_calls := open_calls(history):
        console.print("\nwithout a reply", style="bold")
        for call in unanswered_calls:
            console.print(f"  {call.id:>4}  {_signature(call.tool, call, full=full)}")


def _print_head(history: ExecutionHistory, console: Console) -> None:
    start_record, outcome = history.start_record, history.outcome
    status = outcome.status if outcome is not None else history.state
    line = Text(f"{escape_controls(start_record.execution_id)}  ")
    line.append(status, style=_style(status))
    line.append(f"  {_moment(start_record.began_at)}")
    if outcome is not None:
        line.append(f"  {outcome.seconds:.3f} s")
    line.append(f"  {start_record.engine} ({start_record.isolation})" if start_record.engine else "")
    console.print(line)
    for name in ("session", "tenant", "rerun_of", *NAMES):
        if value := getattr(start_record, name):
            value = value if isinstance(value, str) else ", ".join(value)
            console.print(f"{name.replace('_', ' ')} {escape_controls(value)}")


def _print_part(console: Console, title: str, text: str) -> None:
    if text:
        console.print(f"\n{title}", style="bold")
        console.print(escape_controls(text.rstrip("\n")))


def _print_calls(entries: Sequence[ReplyEntry], console: Console, *, full: bool) -> None:
    first = min(entry.record.started_seconds for entry in entries)
    last = max(entry.record.started_seconds + entry.record.seconds for entry in entries)
    # A narrow terminal shows less of the arguments, and no bars.
    cells = min(_CALL_CELLS, max(12, console.width - 40))
    depths = {0: -1}
    for entry in entries:
        record, reply = entry.record, entry.reply
        depths[record.id] = depth = depths.get(record.within, -1) + 1  # calls of a saved program stand under its own
        signature = shorten("  " * min(depth, 8) + _signature(record.name, record, full=False), _CALL_CELLS)
        line = Text(f"  {record.id:>4}  {signature if console.width >= 86 else shorten(signature, cells):<{cells}}")
        line.append(f"  {record.seconds * 1000:>7.1f} ms  {record.bytes_out:>9,} bytes  ")
        bar = _bar(record.started_seconds - first, record.seconds, max(last - first, 1e-9))
        if console.width >= 86:
            line.append(bar, style="red" if record.error is not None else "green")
        line.append("".join(f"  {note}" for note in _notes(record)))
        line.rstrip()
        console.print(line)
        if full:
            console.print(f"        arguments {_format_value(dict(record.arguments), full=True)}")
            if reply.error is None:
                console.print(f"        reply {_format_value(reply.value, full=True)}")
            else:
                console.print(f"        error {escape_controls(reply.error)}")
            for part in escape_controls(record.traceback).splitlines():
                console.print(f"          {part}")
        elif record.error is not None:
            first_line = escape_controls(record.error).partition("\n")[0]
            console.print(f"        error {shorten(first_line, 100)}")


def _approvals(decisions: Sequence[DecisionEntry]) -> Iterable[str]:
    """Each decision, by whom and for what, and the further calls made under it."""
    for decision in decisions:
        if decision.under:
            continue
        by = f" by {escape_controls(decision.by)}" if decision.by else ""
        reason = f": {shorten(escape_controls(decision.reason), 100)}" if decision.reason else ""
        most = f", at most {decision.calls} calls" if decision.calls is not None else ""
        under = [other.call_id for other in decisions if other.under == decision.call_id]
        further = f"; also for {len(under)} more: {_ranges(under)}" if under else ""
        verdict = "approved" if decision.approved else "denied"
        yield f"  {decision.call_id:>4}  {verdict}{by}, {_COVERS[decision.covers]}{most}{reason}{further}"


def _ranges(numbers: Sequence[int]) -> str:
    """`2-4, 7`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ", ".join("-".join(map(str, span)) for span in spans)


def _notes(record: CallRecord) -> Iterable[str]:
    if record.from_record:
        yield "from the record"
    if record.cached:
        yield "cached"
    if record.attempts > 1:
        yield f"{record.attempts} attempts"
    if record.breaker:
        yield f"breaker {record.breaker}"


def _file_lines(files: Sequence[File]) -> Iterable[str]:
    width = max((len(escape_controls(file.name)) for file in files), default=0)
    return (f"  {escape_controls(file.name):<{width}}  {file.mime}  {len(file.data):,} bytes" for file in files)


def _format_value(value: Json, *, full: bool) -> str:
    text = escape_controls(json.dumps(value_as_json(value), ensure_ascii=False))
    return text if full else shorten(text, 2000)


def _signature(name: str, call: Call | CallRecord, *, full: bool) -> str:
    text = f"{printable_name(name)}({format_arguments(call.arguments)})"
    return text if full else shorten(text, _CALL_CELLS)


def _bar(start: float, length: float, whole: float) -> str:
    before = min(int(start / whole * _BAR_CELLS), _BAR_CELLS - 1)
    cells = max(1, min(round(length / whole * _BAR_CELLS), _BAR_CELLS - before))
    return " " * before + "━" * cells


def _number_lines(text: str) -> str:
    lines = text.splitlines()
    width = len(str(len(lines)))
    return "\n".join(f"  {number:>{width}}  {line}" for number, line in enumerate(lines, 1))


def _entries(history: ExecutionHistory, kind: type[_T]) -> list[_T]:
    return [entry for entry in history.entries if isinstance(entry, kind)]


def open_calls(history: ExecutionHistory) -> list[Call]:
    answered_ids = {entry.reply.call_id for entry in _entries(history, ReplyEntry)}
    return [entry.call for entry in _entries(history, CallEntry) if entry.call.id not in answered_ids]


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _style(status: str) -> str:
    return {"finished": "green", "running": "cyan", "paused": "yellow"}.get(status, "red")


def _console() -> Console:
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)


# ----------------------------------------------------------------------------------------------------
# The calls of a program as lanes over time, drawn while it runs: `toolfold run`, `toolfold runs show --follow`.

_MOST_LANES: Final = 12
_MOST_LINES: Final = 5
_MOST_NAMED: Final = 4
_PER_SECOND: Final = 8
_STYLES: Final = {"done": "blue", "open": "cyan", "failed": "red", "waits": "yellow", "recorded": "bright_black"}


@dataclass(slots=True)
class CallBar:
    """Bar of one call."""

    tool: str
    at: float
    until: float | None = None
    kind: str = "open"


class Waterfall:
    """Timeline of one execution, redrawn for each width and moment."""

    def __init__(self, start_record: StartRecord, page: str = "", *, shows_output: bool = True) -> None:
        self._start_record = start_record
        self._page = page
        self._shows_output = shows_output
        self._bars: dict[int, CallBar] = {}
        self._state = "running"
        self._printed = ""
        self._end = 0.0

    def take(self, story: Story) -> None:
        for entry in story.entries:
            self._note(entry)
        self._state = story.state
        if story.outcome is not None:
            self._state, self._end = story.outcome.status, max(self._end, story.outcome.seconds)

    def _note(self, entry: Entry) -> None:
        match entry:
            case CallEntry():
                bar = self._bars.setdefault(entry.call.id, CallBar(entry.call.tool, entry.at))
                bar.kind = "open"
            case Moment(kind="asked"):
                self._bars[entry.call_id] = CallBar(str(entry.facts.get("tool", "")), entry.at, kind="waits")
            case DecisionEntry() if entry.call_id in self._bars:
                self._bars[entry.call_id].kind = "open"
            case ReplyEntry():
                record = entry.record
                kind = "failed" if record.error is not None else "recorded" if record.from_record else "done"
                until = record.started_seconds + record.seconds
                self._bars[record.id] = CallBar(record.name, record.started_seconds, until, kind)
                self._end = max(self._end, until)
            case Moment(kind="printed") if self._shows_output:
                self._printed = (self._printed + entry.text)[-4000:]
            case _:
                pass

    @property
    def is_over(self) -> bool:
        return self._state not in ("running", "paused")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        now = self._end if self.is_over else max(self._end, time.time() - self._start_record.began_at)
        lanes = _lanes(self._bars.values(), now)
        width = max(20, options.max_width - 1)
        parts = [self._head(now)]
        if self._page:
            parts.append(Text(self._page, style="dim"))
        parts += [_line(lane, now, width) for lane in lanes[:_MOST_LANES]]
        if len(lanes) > _MOST_LANES:
            parts.append(Text(f"… and {len(lanes) - _MOST_LANES} more lanes", style="dim"))
        for kind, words in (("waits", "waiting for approval"), ("open", "in flight")):
            calls = {call_id: bar.tool for call_id, bar in self._bars.items() if bar.kind == kind}
            names = [f"{escape_controls(tool)} #{call_id}" for call_id, tool in calls.items()]
            if names and not self.is_over:
                more = f", … {len(names)} in total" if len(names) > _MOST_NAMED else ""
                parts.append(Text(f"{words}: {', '.join(names[:_MOST_NAMED])}{more}", style=_STYLES[kind]))
        parts += [Text(escape_controls(line)) for line in self._printed.splitlines()[-_MOST_LINES:]]
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
        return Text(
            f"{escape_controls(self._start_record.execution_id)}  {', '.join(words)}, {now:.1f} s", style="bold"
        )


async def follow_execution(ledger: Ledger, start_record: StartRecord) -> None:
    """Draw it until it has ended; where nobody sees a drawing, only wait."""
    waterfall = Waterfall(start_record, page_of(ledger, start_record.execution_id))
    console = Console(stderr=True, highlight=False)
    with Live(
        waterfall, console=console, refresh_per_second=_PER_SECOND, transient=True, auto_refresh=console.is_terminal
    ):
        async for story in changes_of(ledger, start_record.execution_id):
            waterfall.take(story)


def _lanes(bars: Iterable[CallBar], now: float) -> list[list[CallBar]]:
    """A call takes the first lane that is free: their number is the real concurrency."""
    lanes: list[list[CallBar]] = []
    free: list[float] = []
    for bar in sorted(bars, key=lambda bar: bar.at):
        at = next((at for at, until in enumerate(free) if until <= bar.at), len(free))
        if at == len(free):
            free.append(0.0)
            lanes.append([])
        free[at] = now if bar.until is None else bar.until
        lanes[at].append(bar)
    return lanes


def _line(lane: list[CallBar], now: float, width: int) -> Text:
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


# ----------------------------------------------------------------------------------------------------
# What a command says once a signal has stopped its program: which calls may have run, and where the rest is.

_SHOWN_CALLS: Final = 3


async def report_stop(ledger: Ledger, execution_id: str, *, where: str | None = None) -> None:
    """One line on stderr; `where` is the ledger as the command line names it."""
    try:
        history = await ledger.load(execution_id)
    except ToolfoldError:  # a ledger that broke is the lesser news
        history = None
    if history is None:
        complain("stopped; the program had not started", code=Exit.INTERRUPTED)
        return
    calls = open_calls(history)
    call_texts = ", ".join(map(format_call, calls[:_SHOWN_CALLS]))
    more = f" and {len(calls) - _SHOWN_CALLS} more" if len(calls) > _SHOWN_CALLS else ""
    parts = ["stopped", f"{call_texts}{more} may have run" if calls else "no call was in flight"]
    if ledger.is_lasting:
        option = "" if where is None else f" --ledger {shlex.quote(where)}"
        parts.append(f"toolfold runs show {execution_id}{option}")
    print(f"toolfold: {'; '.join(parts)}", file=sys.stderr, flush=True)
