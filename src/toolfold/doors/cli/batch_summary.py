"""What is told of a batch: while it runs, and in a table at its end. Keeps numbers, not outcomes."""

from __future__ import annotations

import heapq
import sys
import time
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from toolfold.doors.cli.render import shortened, word

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from toolfold.models import Json

_SHOWN: Final = 5
_SHOWN_TOOLS: Final = 10
_MOST_PROBLEMS: Final = 1000
"""How many different ones are counted: their texts may all differ."""
_PROBLEM_CHARACTERS: Final = 100
_LINE_SECONDS: Final = 10.0


class Summary:
    """Counts of all results so far."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self._seconds = array("d")
        self._calls: Counter[str] = Counter()
        self._failed_calls: Counter[str] = Counter()
        self._slowest: list[tuple[float, str]] = []
        self._problems: Counter[str] = Counter()

    def add(self, result: Mapping[str, Json]) -> None:
        """One line of the output."""
        self.statuses[result["status"]] += 1
        seconds = float(result.get("seconds") or 0.0)
        self._seconds.append(seconds)
        heapq.heappush(self._slowest, (seconds, result["id"]))
        if len(self._slowest) > _SHOWN:
            heapq.heappop(self._slowest)
        for call in result.get("calls") or ():
            self._calls[call["name"]] += 1
            self._failed_calls[call["name"]] += call["error"] is not None
        if problem := result.get("problem"):
            said = shortened(str(problem["message"]).partition("\n")[0], _PROBLEM_CHARACTERS)
            if said in self._problems or len(self._problems) < _MOST_PROBLEMS:
                self._problems[said] += 1

    def lines(self) -> list[str]:
        """All of it, for a person."""
        rows = [("programs", str(self.statuses.total())), ("statuses", _counted(self.statuses))]
        ordered = sorted(self._seconds)
        if ordered:
            p50, p95 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.95))
            rows.append(("seconds", f"p50 {p50:.4f}, p95 {p95:.4f}"))
        rows.append(("calls", str(self._calls.total())))
        for name, count in _ranked(self._calls)[:_SHOWN_TOOLS]:
            failed = self._failed_calls[name]
            rows.append(("", f"{count:>7}  {word(name)}" + (f" ({failed} failed)" if failed else "")))
        if self._slowest:
            shown = [f"{word(name)} {seconds:.3f} s" for seconds, name in sorted(self._slowest, reverse=True)]
            rows.append(("slowest", ", ".join(shown)))
        for number, (said, count) in enumerate(_ranked(self._problems)[:_SHOWN]):
            rows.append(("problems" if number == 0 else "", f"{count:>7}  {word(said)}"))
        return [f"{name:<8}  {said}" for name, said in rows]

    def show(self) -> None:
        """On stderr."""
        print("\n".join(self.lines()), file=sys.stderr, flush=True)


class Bar:
    """Progress on stderr: a bar on a terminal, else a line now and then."""

    def __init__(self, summary: Summary, total: int) -> None:
        self._summary = summary
        self._total = total
        self._before = summary.statuses.total()
        self._began = self._said = time.monotonic()
        columns = (BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[said]}"))
        self._bar = Progress(*columns, console=Console(stderr=True)) if sys.stderr.isatty() else None
        self._task = TaskID(0)

    def __enter__(self) -> Bar:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total, said="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """The summary has one more."""
        done = self._summary.statuses.total()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, said=self._state())
        elif time.monotonic() - self._said >= _LINE_SECONDS:
            self._said = time.monotonic()
            print(f"toolfold: {done} of {self._total} programs, {self._state()}", file=sys.stderr, flush=True)

    def _state(self) -> str:
        done = self._summary.statuses.total()
        rate = (done - self._before) / max(time.monotonic() - self._began, 1e-6)
        left = (self._total - done) / rate if rate else 0.0
        return f"{rate:.0f}/s, {_time(left)} left, {_counted(self._summary.statuses)}"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in _ranked(counts)) or "none yet"


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
