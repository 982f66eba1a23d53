"""A library of 1,000 saved programs: what it adds to the start of a runtime and to a program, and the time of a search.

`python -m bench.saved`; the exit status is 1 if a figure misses its target.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from toolfold.execution.request import RuntimeSettings
from toolfold.programs.proof import ProgramLibrary
from toolfold.programs.saved_program import ProgramRecord, SavedProgram, fingerprint
from toolfold.runtime import Runtime
from toolfold.sources.function_tools import as_tool

PROGRAMS = 1_000
ROUNDS = 7
TARGETS = {"start": 0.050, "search": 0.005}
SUBJECTS = (
    "invoices",
    "orders",
    "people",
    "budgets",
    "tickets",
    "shipments",
    "contracts",
    "payments",
    "visits",
    "leads",
)
ACTIONS = ("count", "sum", "list", "compare", "rank", "group", "average", "export", "check", "summarize")


async def price(item: str) -> int:
    """Price of an item."""
    return len(item)


def write(folder: Path) -> None:
    """The programs, as `save` writes them."""
    library, spec = ProgramLibrary(folder), as_tool(price).spec
    for number in range(PROGRAMS):
        subject, action = SUBJECTS[number % 10], ACTIONS[number // 10 % 10]
        program = SavedProgram(
            name=f"{action}_{subject}_{number}", text="await price(item=item)\n",
            description=f"{action.capitalize()} the {subject} of month {number}.",
            parameters={"item": {"type": "string"}}, tools={spec.name: fingerprint(spec)},
        )  # fmt: skip
        record = ProgramRecord(
            execution_id="e",
            text=program.text,
            began_at=1.0,
            seed=1,
            arguments={"item": "x"},
            calls=(),
            value=1,
            tools=(),
        )
        library.write(program, record)


async def seconds(runtime: Runtime) -> float:
    """Of one program."""
    began = time.process_time()
    await runtime.run("await price(item='x')")
    return time.process_time() - began


async def measure(folder: Path) -> dict[str, float]:
    """Medians of processor time, which other load moves less, of rounds that take turns."""
    taken: dict[str, list[float]] = {
        "with": [],
        "without": [],
        "first search": [],
        "search": [],
        "program": [],
        "plain": [],
    }
    for _ in range(ROUNDS):
        for name, programs in (("without", None), ("with", ProgramLibrary(folder))):
            began = time.process_time()
            runtime = Runtime([price], settings=RuntimeSettings(programs=programs, ledger="memory"))
            assert len(runtime.tools) == 2 + (PROGRAMS if programs else 0)
            taken[name].append(time.process_time() - began)
            async with runtime:
                await runtime.run("await price(item='x')")
                taken["program" if programs else "plain"].append(min([await seconds(runtime) for _ in range(20)]))
                if programs:
                    for kind in ("first search", "search"):
                        began = time.process_time()
                        assert runtime.catalog.search("rank the contracts of month 146")
                        taken[kind].append(time.process_time() - began)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> int:
    """Print the figures beside their targets."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        median = asyncio.run(measure(Path(name)))
    figures = {"start": median["with"] - median["without"], "search": median["search"]}
    print(f"{PROGRAMS:,} saved programs, medians of {ROUNDS} rounds")
    for name, target in TARGETS.items():
        print(f"  {name:<14}{figures[name] * 1000:8.2f} ms   target {target * 1000:.0f} ms")
    print(f"  {'first search':<14}{median['first search'] * 1000:8.2f} ms   makes the index")
    print(f"  {'a program':<14}{median['program'] * 1000:8.2f} ms   without a library {median['plain'] * 1000:.2f} ms")
    return any(figures[name] > target for name, target in TARGETS.items())


if __name__ == "__main__":
    sys.exit(main())
