"""What the stream of events costs a program: without it, with nobody who follows, and with one console open.

`python -m bench.console --only cost`: the same programs over three SQLite ledgers, in turns. "Without" does not write
what only watchers need, and writes any time, not one after all others, by which followers know what is new. The console
is a process of its own with a list that listens. A sample is some programs one after the other, until all of them are
written; its figures are the time that passed and the processor time of this process, which other work on the machine
disturbs much less. Compared are samples of the same round: the figure is the median of their ratios, with the interval
that holds it 95 times in 100. Rounds go on until that interval is narrow.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

import toolfold
from bench.cases import CASES, Case
from bench.measure import PAUSE_SECONDS
from bench.tools import TOOLS
from toolfold.execution.execution import ExecutionRecord
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.ledger.sqlite.tables import SqliteChanges

RUNS = {"empty": 12, "sequential": 1}
"""Programs in one sample."""
FEWEST_ROUNDS = 30
MOST_SECONDS = 75.0
"""For each case."""
NARROW = 0.015
"""From one end of an interval to the other."""
BOUNDS = {"nobody follows": 1.03, "one console": 1.10}
CLOCKS = {"time": time.perf_counter, "processor time": time.process_time}
Side: TypeAlias = tuple[SqliteLedger, toolfold.Runtime]
Samples: TypeAlias = dict[str, list[tuple[float, ...]]]


class Stream:
    """Can be turned off, for all ledgers of this process."""

    def __init__(self) -> None:
        self.is_on = True
        now, tell = SqliteChanges.now, ExecutionRecord.tell

        def timed(changes: SqliteChanges) -> float:
            return now(changes) if self.is_on else time.time()

        # Any: as in the record.
        def told(record: ExecutionRecord, *args: Any, **facts: Any) -> None:
            if self.is_on:
                tell(record, *args, **facts)

        # Two of our own methods, in a process that does nothing but measure.
        SqliteChanges.now = timed  # type: ignore[method-assign,assignment]
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
    """Case and clock, side, median in milliseconds, and the ratio to "without" with its interval."""
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
            gc.freeze()  # so that a collection before each sample takes no time
            for case in (one for one in CASES if one.name in RUNS):
                samples = await _rounds(stream, sides, case)
                print(f"{case.name}: {len(samples['without'])} rounds", file=sys.stderr)
                for at, clock in enumerate(CLOCKS):
                    for name in BOUNDS:
                        median = statistics.median(one[at] for one in samples[name]) * 1000 / RUNS[case.name]
                        found.append((f"{case.name}, {clock}", name, median, _compared(samples, name, at)))
    return found


async def _rounds(stream: Stream, sides: dict[str, Side], case: Case) -> Samples:
    """Every side once in each round, until the intervals are narrow or the time is over."""
    samples: Samples = {name: [] for name in sides}
    orders = list(itertools.permutations(sides))
    ends_at = time.monotonic() + MOST_SECONDS
    for count in itertools.count():
        for name in orders[count % len(orders)]:
            stream.is_on = name != "without"
            sample = await _sample(*sides[name], case)
            if count:  # the first round warms up
                samples[name].append(sample)
        if count >= FEWEST_ROUNDS and (time.monotonic() > ends_at or _is_narrow(samples)):
            break
    return samples


async def _sample(ledger: SqliteLedger, runtime: toolfold.Runtime, case: Case) -> tuple[float, ...]:
    await asyncio.sleep(PAUSE_SECONDS)
    gc.collect()
    began = [clock() for clock in CLOCKS.values()]
    for _ in range(RUNS[case.name]):
        outcome = await runtime.run(case.text)
        assert outcome.status == "finished", outcome
    await ledger.list(limit=1)  # until all of it is written
    return tuple(clock() - then for clock, then in zip(CLOCKS.values(), began, strict=True))


def _is_narrow(samples: Samples) -> bool:
    found = [_compared(samples, name, at) for name in BOUNDS for at in range(len(CLOCKS))]
    return all(high - low <= NARROW for _, low, high in found)


def _compared(samples: Samples, name: str, at: int) -> tuple[float, float, float]:
    """The median of the ratios to "without", and the ratios between which it is 95 times in 100."""
    ratios = sorted(ours[at] / base[at] for ours, base in zip(samples[name], samples["without"], strict=True))
    reach = math.ceil(0.98 * math.sqrt(len(ratios)))
    middle = len(ratios) // 2
    return statistics.median(ratios), ratios[max(0, middle - reach)], ratios[min(len(ratios) - 1, middle + reach)]
