"""The console in figures: lists of 100,000 executions, how live its page is, and what it costs programs.

`make bench NAME=console` measures everything in some minutes and prints one table; `--only lists` measures a part. The
page is a real Chromium, which is fetched once; what cannot be measured here is NOT RUN.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench import console_cost, console_lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the table."""

    name: str
    value: float
    limit: float
    unit: str
    detail: str = ""

    @property
    def is_met(self) -> bool:
        return self.value <= self.limit


async def lists(options: argparse.Namespace) -> list[Figure]:
    """The 95th percentile of each filter, over HTTP."""
    found = await console_lists.measured(options.executions)
    return [
        Figure(name=f"list by {name}, {ledger}", value=p95, limit=console_lists.AT_MOST_MS, unit="ms",
               detail=f"{rows} rows, p50 {p50:.1f} ms")
        for ledger, name, rows, p50, p95 in found
    ]  # fmt: skip


async def search(options: argparse.Namespace) -> list[Figure]:
    """The 95th percentile of each search over runs of ten calls, and how large the file of the words is."""
    rows, ratio, seconds = await console_lists.searched(options.executions)
    size = Figure(
        name="ledger with its search index",
        value=ratio,
        limit=console_lists.LARGEST,
        unit="×",
        detail=f"indexed in {seconds:.0f} s",
    )
    return [
        *(Figure(name=f"search {text}", value=p95, limit=console_lists.SEARCH_AT_MOST_MS, unit="ms",
                 detail=f"{count} rows, p50 {p50:.1f} ms") for text, count, p50, p95 in rows),
        size,
    ]  # fmt: skip


async def cost(_: argparse.Namespace) -> list[Figure]:
    """Ratios to programs without the stream of events."""
    return [
        Figure(name=f"{case}, {side}", value=ratio, limit=console_cost.BOUNDS[side], unit="×",
               detail=f"95 %: {low:.3f} to {high:.3f}; {median:.3f} ms")
        for case, side, median, (ratio, low, high) in await console_cost.measured()
    ]  # fmt: skip


async def page(_: argparse.Namespace) -> list[Figure]:
    """What tests of the page in Chromium noted."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as file:
        environment = {**os.environ, "CONSOLE_FIGURES": file.name, "PYTHONPATH": "src"}
        command = [sys.executable, "-m", "tests.console", "large.py", "latency.py"]
        root = Path(__file__).parents[1]
        ended = await asyncio.to_thread(subprocess.run, command, env=environment, cwd=root, check=False)
        figures = [Figure(**json.loads(line)) for line in file]
    if ended.returncode and all(one.is_met for one in figures):
        raise SystemExit("the page was not measured; the lines above say why")
    return figures


PARTS: dict[str, Callable[[argparse.Namespace], Awaitable[list[Figure]]]] = {
    "lists": lists,
    "search": search,
    "page": page,
    "cost": cost,
}


def show(figures: list[Figure]) -> None:
    """One line for each."""
    width = max(len(one.name) for one in figures)
    print(f"\n{'':{width}}  {'figure':>10}  {'at most':>10}")
    for one in figures:
        digits = 3 if one.unit == "×" else 1
        value, limit = f"{one.value:.{digits}f} {one.unit}", f"{one.limit:g} {one.unit}"
        print(f"{one.name:{width}}  {value:>10}  {limit:>10}  {'met' if one.is_met else 'MISSED':6}  {one.detail}")


async def main() -> int:
    """Exit status 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(PARTS), action="append", help="measure a part (default: all)")
    parser.add_argument("--executions", type=int, default=100_000, metavar="N", help="in the lists (default: 100,000)")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.only or PARTS:
        print(f"measuring: {name}", file=sys.stderr)
        figures += await PARTS[name](options)
    if figures:
        show(figures)
    return int(not all(one.is_met for one in figures))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
