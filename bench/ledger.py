"""What a ledger costs: `python -m bench.ledger`.

First a program of 100 calls with each ledger beside the same without one, interleaved; then how
long a ledger of 1,000,000 calls takes to open, list and show. `--calls N` makes it smaller.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import toolfold
from bench import record
from bench.cases import CASES
from bench.measure import one_run
from bench.tools import TOOLS
from toolfold.ledger.base import CallEntry, Entry, Ledger, ReplyEntry, StartRecord
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Call, CallRecord, Limits, Outcome, Program, Reply, ToolSpec

ROUNDS = 25
CALLS_PER_EXECUTION = 100


class NoLedger(MemoryLedger):
    """Keeps nothing: the base line."""

    def begin(self, begun: StartRecord) -> None:
        pass

    def note(self, execution_id: str, *entries: Entry, epoch: int = 0) -> None:
        pass

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0, wait: bool = False) -> None:
        pass


async def programs(folder: Path) -> dict[str, Any]:
    """The time of whole programs, by case and ledger."""
    ledgers: dict[str, Ledger] = {
        "none": NoLedger(),
        "memory": MemoryLedger(),
        "sqlite": SqliteLedger(folder / "open.sqlite"),
        "sealed": SqliteLedger(folder / "sealed.sqlite", key=b"k" * 32),
    }
    cases = [case for case in CASES if case.name in ("empty", "sequential", "gather")]
    found = {}
    async with AsyncExitStack() as stack:
        runtimes = {
            name: await stack.enter_async_context(toolfold.Runtime(TOOLS, engine="process", ledger=ledger))
            for name, ledger in ledgers.items()
        }
        for case in cases:
            seconds: dict[str, list[float]] = {name: [] for name in runtimes}
            for _ in range(ROUNDS + 1):
                for name, runtime in runtimes.items():
                    seconds[name].append(await one_run(runtime, case.text))
            # The first of each fills caches.
            medians = {name: statistics.median(samples[1:]) * 1000 for name, samples in seconds.items()}
            shown = (f"{name} {median:.2f} ms ×{median / medians['none']:.2f}" for name, median in medians.items())
            print(f"{case.name}, the whole program: {', '.join(shown)}")
            title = f"{case.title.removesuffix(', each')}, the whole program"
            found[case.name] = record.case(title, "ms", medians)
    for ledger in ledgers.values():
        await ledger.close()
    return found


async def million(folder: Path, calls: int) -> dict[str, Any]:
    """The time to read a large ledger."""
    path = folder / "large.sqlite"
    count = calls // CALLS_PER_EXECUTION
    began = time.perf_counter()
    ledger = SqliteLedger(path)
    entries = list(_entries())
    records = tuple(entry.record for entry in entries if isinstance(entry, ReplyEntry))
    tools = (ToolSpec(name="price", python_name="price"),)
    for number in range(count):
        name = f"{number:016x}"
        program = Program(text=f"total = {number}\nprint(total)")
        ledger.begin(
            StartRecord(execution_id=name, program=program, tools=tools, limits=Limits(), began_at=1.7e9 + number)
        )
        ledger.note(name, *entries)
        await ledger.finish(name, Outcome(execution_id=name, status="finished", calls=records, stdout="x" * 200))
        if number % 50 == 0:
            await ledger.list(limit=1)
    await ledger.close()
    size = path.stat().st_size / 1e6
    print(
        f"{count * CALLS_PER_EXECUTION:,} calls in {count:,} executions: {size:.0f} MB, {_since(began):.1f} s to write"
    )

    began = time.perf_counter()
    ledger = SqliteLedger(path)
    print(f"open {_since(began) * 1000:.1f} ms")
    middle = f"{count // 2:016x}"
    reads: dict[str, Callable[[], Awaitable[Any]]] = {
        "list 50": ledger.list,
        "list 50 from the middle": lambda: ledger.list(before=1.7e9 + count / 2),
        "find an id": lambda: ledger.find(middle[:14]),
        "show": lambda: ledger.load(middle),
    }
    medians = {what: await _time(what, do) for what, do in reads.items()}
    await ledger.close()
    return {
        what: record.case(f"{what}, of {count * CALLS_PER_EXECUTION:,} calls", "ms", {"sqlite": median})
        for what, median in medians.items()
    }


def _entries() -> Iterable[Entry]:
    for call_id in range(1, CALLS_PER_EXECUTION + 1):
        arguments = {"ticker": f"T{call_id}", "quarter": call_id % 4}
        value = {"rows": [{"id": call_id, "amount": call_id * 1.5, "text": "some text"}]}
        yield CallEntry(Call(id=call_id, tool="price", arguments=arguments))
        yield ReplyEntry(
            Reply(call_id=call_id, value=value), CallRecord(id=call_id, name="price", arguments=arguments, seconds=0.01)
        )


async def _time(what: str, do: Callable[[], Awaitable[Any]]) -> float:
    samples = []
    for _ in range(7):
        began = time.perf_counter()
        assert await do()
        samples.append(_since(began) * 1000)
    print(f"{what}: first {samples[0]:.1f} ms, median {statistics.median(samples):.1f} ms")
    return statistics.median(samples)


def _since(began: float) -> float:
    return time.perf_counter() - began


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = {**await programs(Path(folder)), **await million(Path(folder), given.calls)}
    record.write(record.FOLDER / "ledger.json", title="The ledger", command="make bench", cases=cases)


if __name__ == "__main__":
    asyncio.run(main())
