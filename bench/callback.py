"""What a call back to the parent costs: `python -m bench.callback`.

A child on stdio, an executor here that does nothing. Each round runs three programs and takes the
time of each as the parent sees it: one without a call, one with 100 calls in a row, one with 100
gathered; the first is taken off the others. The exit status is 1 if a median misses its target.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import record
from toolfold.gem import ProgrammaticToolCallingTool, create_programmatic_tool_calling_tool_stdio

CALLS = 100
EMPTY = "pass"
SEQUENTIAL = f"for i in range({CALLS}): tools.echo(i=i)"
GATHERED = f"import asyncio\nawait asyncio.gather(*[tools.echo(i=i) for i in range({CALLS})])"
TARGETS = {"each of 100 calls in a row": 5.0, "100 gathered calls": 200.0}


def echo(name: str, args: dict[str, Any], call_id: str) -> tuple[bool, bool, str, str, str]:
    return True, False, str(args["i"]), name, call_id


def milliseconds(tool: ProgrammaticToolCallingTool, code: str) -> float:
    began = time.perf_counter()
    _, has_error, observation, *_ = tool.execute_tool(tool.name, {"code": code}, "bench")
    if has_error:
        raise RuntimeError(json.loads(observation)["error"])
    return (time.perf_counter() - began) * 1000


def measure(rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {"a program without a call": [], **{name: [] for name in TARGETS}}
    with tempfile.TemporaryDirectory() as workspace:
        tool = create_programmatic_tool_calling_tool_stdio(workspace, echo, validate_on_init=True)
        try:
            milliseconds(tool, SEQUENTIAL)  # the first program pays for what is imported late
            for _ in range(rounds):
                empty = milliseconds(tool, EMPTY)
                taken["a program without a call"].append(empty)
                taken["each of 100 calls in a row"].append((milliseconds(tool, SEQUENTIAL) - empty) / CALLS)
                taken["100 gathered calls"].append(milliseconds(tool, GATHERED) - empty)
        finally:
            tool.close()
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.callback", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    taken = measure(parser.parse_args().rounds)
    table = Table("case", "median ms", "worst ms", "target ms")
    missed = False
    for name, times in taken.items():
        median, target = statistics.median(times), TARGETS.get(name)
        missed |= target is not None and median > target
        table.add_row(name, f"{median:.2f}", f"{max(times):.2f}", "" if target is None else f"{target:g}")
    Console().print(table)
    _write(taken)
    return 1 if missed else 0


def _write(taken: dict[str, list[float]]) -> None:
    medians = {name: statistics.median(times) for name, times in taken.items()}
    record.write(
        record.FOLDER / "callback.json",
        title="Calls back to the parent process",
        command="make bench NAME=callback",
        cases={
            name: {"title": name, "unit": "ms", "runners": {"toolfold": record.cell(medians[name], times)}}
            for name, times in taken.items()
        },
        targets=[
            record.target(name, medians[name], limit, "ms", is_reached=medians[name] <= limit)
            for name, limit in TARGETS.items()
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
