"""Batch command: `toolfold batch` runs the programs of a JSON Lines file and appends a result line for each."""

from __future__ import annotations

import base64
import heapq
import json
import os
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from toolfold.errors import UsageError
from toolfold.execution.batch import Item
from toolfold.file_locks import O_CLOEXEC, try_lock
from toolfold.interfaces.cli.command_process import Exit, complain, run_until_stopped, write_json
from toolfold.interfaces.cli.command_setup import choose_engine, nearest_config, open_for_command, runtime_factory
from toolfold.interfaces.cli.commands.run import stdout_to_stderr
from toolfold.interfaces.cli.load_tools import load_tools
from toolfold.interfaces.cli.outcome_output import printable_name, shorten
from toolfold.interfaces.cli.program_inputs import limits_for
from toolfold.ledger.base import Ledger
from toolfold.models import File, Json, Limits, Outcome
from toolfold.runtime import Runtime

# ----------------------------------------------------------------------------------------------------
# The two files of `toolfold batch`: programs in, one per line, and results out, each line whole or not there.

_LIMITS: Final = frozenset(field.name for field in fields(Limits))


class ProgramLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Program of one input line."""

    program: str
    id: str | int | None = None
    """What its result is found by; the number of the line unless given."""
    tools: list[str] | None = None
    files: dict[str, str | dict[str, str]] = {}
    """Texts, or `{"base64": ...}`, by name."""
    limits: dict[str, float | int] = {}
    session: str = ""
    keep_names: bool = False
    seed: int | None = None
    stdin: str | None = None
    clock: float | None = None
    """Seconds since 1970, at the start of the program; its clocks then advance with readings and sleeps only."""


_decoder: Final = msgspec.json.Decoder(ProgramLine)


class Programs:
    """The input. Read twice: once to find mistakes before anything runs, and once as there is room."""

    def __init__(self, path: Path, default_limits: Limits) -> None:
        self._path = path
        self._limits = default_limits
        self.ids: set[str] = set()
        for number, item in self._items():
            if item.tag in self.ids:
                reason = f"the id {item.tag!r} is already used on an earlier line; ids must be unique"
                raise self._line_error(number, reason)
            self.ids.add(item.tag)

    def items(self, done: set[str]) -> Iterator[Item]:
        """Programs without a result."""
        return (item for _, item in self._items() if item.tag not in done)

    def _items(self) -> Iterator[tuple[int, Item]]:
        try:
            with self._path.open("rb") as file:
                for number, raw in enumerate(file, 1):
                    if raw.strip():
                        yield number, self._item(number, raw)
        except OSError as error:
            raise UsageError(f"programs {str(self._path)!r} cannot be read: {error.strerror}") from error

    def _item(self, number: int, raw: bytes) -> Item:
        try:
            line = _decoder.decode(raw)
            files = tuple(File(name=name, data=_data(values)) for name, values in line.files.items())
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            raise self._line_error(number, str(error)) from error
        if unknown := sorted(line.limits.keys() - _LIMITS):
            raise self._line_error(number, f"unknown limit {unknown[0]!r}; the limits are {', '.join(sorted(_LIMITS))}")
        # Any: each limit has its own type, and all are numbers.
        values: dict[str, Any] = {
            key: float(value) if key == "wall_seconds" else int(value) for key, value in line.limits.items()
        }
        return Item(
            text=line.program, tag=str(number if line.id is None else line.id), files=files, seed=line.seed,
            tools=line.tools, limits=replace(self._limits, **values) if values else self._limits, session=line.session,
            keep_names=line.keep_names, stdin=line.stdin, clock=line.clock,
        )  # fmt: skip

    def _line_error(self, number: int, reason: str) -> UsageError:
        return UsageError(f"{str(self._path)!r} line {number}: {reason}")


def _data(content: str | dict[str, str]) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if content.keys() != {"base64"}:
        raise ValueError('a file must be text or {"base64": "..."}')
    return base64.b64decode(content["base64"], validate=True)


class Results:
    """The output: appended to, one write per line, so that a kill leaves at most a part of the last line."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self.name = repr(str(path))

    def add(self, name: str, outcome: Outcome) -> None:
        """Append a result and hand it to the disk."""
        self.append({"id": name, **outcome.to_dict()})

    def append(self, item: dict[str, Json]) -> None:
        text = json.dumps(item, ensure_ascii=False, allow_nan=False)
        remaining = memoryview(text.encode("utf-8", "backslashreplace") + b"\n")
        try:
            while remaining:
                remaining = remaining[os.write(self._descriptor, remaining) :]
        except OSError as error:
            raise UsageError(f"results {str(self._path)!r} cannot be written: {error.strerror}") from error

    def read_existing(self) -> Iterator[dict[str, Json]]:
        """Results of an earlier start of the batch."""
        for number, item in enumerate(self.read_lines(), 1):
            if not (isinstance(item.get("id"), str) and isinstance(item.get("status"), str)):
                raise self._no_result(number)
            yield item

    def read_lines(self) -> Iterator[dict[str, Json]]:
        """Lines of an earlier start. A partial last one, which a kill left, is removed."""
        number, complete_bytes = 0, 0
        with open(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                number, complete_bytes = number + 1, complete_bytes + len(raw)
                yield self._line(number, raw)
        os.ftruncate(self._descriptor, complete_bytes)

    def _line(self, number: int, raw: bytes) -> dict[str, Json]:
        try:
            item = json.loads(raw)
        except ValueError:
            raise self._no_result(number) from None
        if not isinstance(item, dict):
            raise self._no_result(number)
        return item

    def _no_result(self, number: int) -> UsageError:
        return UsageError(f"{self.name} line {number} is not a result; name another file")


@contextmanager
def open_results(path: Path) -> Iterator[Results]:
    """The output, for this process alone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"results {str(path)!r} cannot be written: {error.strerror}") from error
    try:
        try:
            if not try_lock(descriptor):
                raise UsageError(f"another batch is writing to {str(path)!r}; wait for it, or name another file")
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            raise UsageError(f"results {str(path)!r} cannot be locked: {reason}; put them on a local disk") from error
        yield Results(descriptor, path)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ----------------------------------------------------------------------------------------------------
# Progress and summary of a batch. Keeps numbers, not outcomes.

_SUMMARY_ROWS: Final = 5
_SHOWN_TOOLS: Final = 10
_MOST_PROBLEMS: Final = 1000
"""How many different ones are counted: their texts may all differ."""
_PROBLEM_CHARACTERS: Final = 100
_LINE_SECONDS: Final = 10.0


class BatchSummary:
    """Counts of all results so far."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self._seconds = array("d")
        self._calls: Counter[str] = Counter()
        self._failed_calls: Counter[str] = Counter()
        self._slowest: list[tuple[float, str]] = []
        self._problems: Counter[str] = Counter()

    def add(self, result: Mapping[str, Json]) -> None:
        self.statuses[result["status"]] += 1
        seconds = float(result.get("seconds") or 0.0)
        self._seconds.append(seconds)
        heapq.heappush(self._slowest, (seconds, result["id"]))
        if len(self._slowest) > _SUMMARY_ROWS:
            heapq.heappop(self._slowest)
        for call in result.get("calls") or ():
            self._calls[call["name"]] += 1
            self._failed_calls[call["name"]] += call["error"] is not None
        if problem := result.get("problem"):
            message = shorten(str(problem["message"]).partition("\n")[0], _PROBLEM_CHARACTERS)
            if message in self._problems or len(self._problems) < _MOST_PROBLEMS:
                self._problems[message] += 1

    def _percentiles(self) -> list[float]:
        ordered = sorted(self._seconds)
        return [ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.95)] if ordered else []

    def to_dict(self, *, remaining: int) -> dict[str, Json]:
        calls = [
            {"name": name, "calls": count, "failed": self._failed_calls[name]} for name, count in _rank(self._calls)
        ]
        problems = [{"message": text, "programs": count} for text, count in _rank(self._problems)]
        slowest = [{"id": name, "seconds": seconds} for seconds, name in sorted(self._slowest, reverse=True)]
        return {
            "programs": self.statuses.total(), "remaining": remaining, "statuses": dict(self.statuses),
            "seconds": dict(zip(("p50", "p95"), self._percentiles(), strict=False)),
            "calls": calls, "slowest": slowest, "problems": problems,
        }  # fmt: skip

    def lines(self) -> list[str]:
        rows = [("programs", str(self.statuses.total())), ("statuses", _format_counts(self.statuses))]
        if self._seconds:
            p50, p95 = self._percentiles()
            rows.append(("seconds", f"p50 {p50:.4f}, p95 {p95:.4f}"))
        rows.append(("calls", str(self._calls.total())))
        for name, count in _rank(self._calls)[:_SHOWN_TOOLS]:
            failed = self._failed_calls[name]
            rows.append(("", f"{count:>7}  {printable_name(name)}" + (f" ({failed} failed)" if failed else "")))
        if self._slowest:
            slowest = sorted(self._slowest, reverse=True)
            rows.append(("slowest", ", ".join(f"{printable_name(name)} {seconds:.3f} s" for seconds, name in slowest)))
        for number, (text, count) in enumerate(_rank(self._problems)[:_SUMMARY_ROWS]):
            rows.append(("problems" if number == 0 else "", f"{count:>7}  {printable_name(text)}"))
        return [f"{name:<8}  {text}" for name, text in rows]


class BatchProgress:
    """Progress on stderr: a bar on a terminal, else a line now and then."""

    def __init__(self, summary: BatchSummary, total: int) -> None:
        self._summary = summary
        self._total = total
        self._initial_count = summary.statuses.total()
        self._began = self._last_line_at = time.monotonic()
        columns = (BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[said]}"))
        self._bar = Progress(*columns, console=Console(stderr=True)) if sys.stderr.isatty() else None
        self._task = TaskID(0)

    def __enter__(self) -> BatchProgress:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total, said="")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """Show that the summary has one more result."""
        done = self._summary.statuses.total()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, said=self._state())
        elif time.monotonic() - self._last_line_at >= _LINE_SECONDS:
            self._last_line_at = time.monotonic()
            print(f"toolfold: {done} of {self._total} programs, {self._state()}", file=sys.stderr, flush=True)

    def _state(self) -> str:
        done = self._summary.statuses.total()
        rate = (done - self._initial_count) / max(time.monotonic() - self._began, 1e-6)
        remaining = timedelta(seconds=int((self._total - done) / rate) if rate else 0)
        return f"{rate:.0f}/s, {remaining} left, {_format_counts(self._summary.statuses)}"


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in _rank(counts)) or "none yet"


def _rank(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def run_batch(
    source: Path, *, out: Path, tools: Sequence[str], config: Path | None, timeout_seconds: float | None,
    engine: str | None, address: str | None, in_flight: int | None, ledger: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Run what has no result yet, and return the exit code: 0 if every program has one."""
    loaded_config = nearest_config(config)
    default_limits = None if loaded_config is None else loaded_config.program_limits
    limits = limits_for(timeout_seconds, as_json=True, default_limits=default_limits)
    if out.exists() and source.exists() and out.samefile(source):
        raise UsageError(f"--out is the input file {str(out)!r}; name another file")
    programs, code = Programs(source, limits), int(Exit.FINISHED)
    with open_results(out) as results:
        summary, done = _read_results(results, programs)
        if len(done) < len(programs.ids):
            with stdout_to_stderr():
                # A batch is thousands of programs: they are in the ledger only where somebody says so.
                has_configured_ledger = loaded_config is not None and bool(loaded_config.ledger.model_fields_set)
                store = open_for_command(ledger or (None if has_configured_ledger else "memory"), loaded_config)
                make_runtime = partial(
                    # Any of the programs may mean a server's tool.
                    runtime_factory(loaded_config, "tools", Runtime), tools=load_tools(tools),
                    **choose_engine(loaded_config, engine=engine, isolation=None, address=address), limits=limits,
                    ledger=store, interface="cli",
                )  # fmt: skip
                code = run_until_stopped(_run(make_runtime, store, programs, results, summary, done, in_flight))
    remaining = len(programs.ids) - summary.statuses.total()
    if as_json:
        write_json(summary.to_dict(remaining=remaining))
    else:
        print("\n".join(summary.lines()), file=sys.stderr, flush=True)
    if remaining:
        message = f"{remaining} of {len(programs.ids)} programs have no result yet; start the command again to continue"
        complain(message, code=code)
    return code


def _read_results(results: Results, programs: Programs) -> tuple[BatchSummary, set[str]]:
    summary, done = BatchSummary(), set[str]()
    for result in results.read_existing():
        if result["id"] in programs.ids and result["id"] not in done:
            done.add(result["id"])
            summary.add(result)
    return summary, done


async def _run(
    make_runtime: Callable[[], Runtime], ledger: Ledger, programs: Programs, results: Results, summary: BatchSummary,
    done: set[str], in_flight: int | None,
) -> int:  # fmt: skip
    try:
        async with make_runtime() as runtime:
            with BatchProgress(summary, len(programs.ids)) as bar:
                async with aclosing(runtime.map(programs.items(done), in_flight=in_flight)) as outcomes:
                    async for result in outcomes:
                        results.add(result.tag, result.outcome)
                        summary.add({"id": result.tag, **result.outcome.to_dict()})
                        bar.advance()
    finally:
        await ledger.close()
    return Exit.FINISHED
