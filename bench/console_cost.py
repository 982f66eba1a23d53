"""What the stream of events costs a program: without it, with nobody who follows, and with one console open.

`python -m bench.console --only cost`: the same programs over three SQLite ledgers, in turns. "Without" writes neither
what only watchers need, nor the rows that followers read. The console is a process of its own with a list that
listens. A pair is a median of each side; the figure is the mean of the pairs' ratios with its interval of 95 %.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

import toolfold
from bench.cases import CASES
from bench.measure import one_run
from bench.pairs import interval
from bench.tools import TOOLS
from toolfold.execution.record import ExecutionRecord
from toolfold.ledger.changes import ChangeTable
from toolfold.ledger.sqlite import SqliteLedger

ROUNDS = {"empty": 9, "sequential": 4}
"""Samples of each side in one pair."""
PAIRS = 16
BOUNDS = {"nobody follows": 1.03, "one console": 1.10}
Side: TypeAlias = tuple[SqliteLedger, toolfold.Runtime]


class Stream:
    """Can be turned off, for all ledgers of this process."""

    def __init__(self) -> None:
        self.is_on = True
        add, tell = ChangeTable.add, ExecutionRecord.tell

        def added(table: ChangeTable, execution: int) -> None:
            if self.is_on:
                add(table, execution)

        # Any: as in the record.
        def told(record: ExecutionRecord, *args: Any, **facts: Any) -> None:
            if self.is_on:
                tell(record, *args, **facts)

        # Two of our own methods, in a process that does nothing but measure.
        ChangeTable.add = added  # type: ignore[method-assign,assignment]
        ExecutionRecord.tell = told  # type: ignore[method-assign,assignment]


@asynccontextmanager
async def console(path: Path) -> AsyncIterator[None]:
    """In a process of its own, with one page that listens."""
    process, link = _started(path)
    try:
        async with httpx2.AsyncClient(timeout=None, follow_redirects=True) as client:
            await client.get(link)
            async with client.stream("GET", link.partition("/login")[0] + "/api/events") as stream:
                reading = asyncio.create_task(_read(stream))
                yield
                reading.cancel()
    finally:
        process.kill()
        process.wait()


def _started(path: Path) -> tuple[subprocess.Popen[str], str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(path.parent)}
    command = [sys.executable, "-m", "toolfold", "console", "--port", "0", "--ledger", str(path)]
    process = subprocess.Popen(command, cwd=path.parent, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    link = next(found[1] for line in process.stderr if (found := re.search(r"console at (http://\S+)", line)))
    return process, link


async def _read(stream: httpx2.Response) -> None:
    async for _ in stream.aiter_raw():
        pass


async def measured() -> list[tuple[str, str, float, tuple[float, float, float]]]:
    """Case, side, median in milliseconds, and the ratio to "without" with its interval."""
    stream = Stream()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            sides: dict[str, Side] = {}
            for name in ("without", *BOUNDS):
                ledger = SqliteLedger(Path(folder) / f"{name.replace(' ', '-')}.sqlite")
                stack.push_async_callback(ledger.close)
                runtime = toolfold.Runtime(TOOLS, engine="process", ledger=ledger)
                sides[name] = (ledger, await stack.enter_async_context(runtime))
            await stack.enter_async_context(console(Path(folder) / "one-console.sqlite"))
            for case in (one for one in CASES if one.name in ROUNDS):
                pairs = await _pairs(stream, sides, case.text, ROUNDS[case.name])
                for name in BOUNDS:
                    ratios = [ours / base for ours, base in zip(pairs[name], pairs["without"], strict=True)]
                    found.append((case.name, name, statistics.median(pairs[name]) * 1000, interval(ratios)))
                    print(f"{case.name}, {name}: x%.3f (%.3f to %.3f)" % interval(ratios), file=sys.stderr)
    return found


async def _pairs(stream: Stream, sides: dict[str, Side], text: str, rounds: int) -> dict[str, list[float]]:
    """The median of each side, as often as there are pairs."""
    medians: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for pair in range(-1, PAIRS):  # the first one warms up
        taken: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(rounds):
            for name in order[turn % 3 :] + order[: turn % 3]:
                ledger, runtime = sides[name]
                stream.is_on = name != "without"
                taken[name].append(await one_run(runtime, text))
                await ledger.list(limit=1)  # written, before the stream is turned
        if pair >= 0:
            for name in sides:
                medians[name].append(statistics.median(taken[name]))
        order.reverse()
    return medians
