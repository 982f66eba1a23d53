"""One side of `bench.pairs`: measures what it is asked for, in the tree that it was started in.

Started as a file, so that an old tree needs nothing of it. Reads `case round-count` lines and
answers each with one line of JSON: the samples. For the case `check` both sides first agree on
the texts: `valid` is answered with the names of those that this one takes, `keep` is told which to use.
"""

import asyncio
import importlib
import importlib.util
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import toolfold
from bench.cases import CASES, Case, MemoryCase, RateCase
from bench.measure import FACTORS, PAUSE_SECONDS
from bench.processes import pss_bytes
from bench.runners.toolfold import Toolfold
from bench.tools import TOOLS

BY_NAME = {case.name: case for case in CASES}


def _sqlite_ledger(path: Path) -> Any:
    """By its module in this tree, or in one from before the fold."""
    try:
        module = importlib.import_module("toolfold.ledger.sqlite.store")
    except ModuleNotFoundError:
        module = importlib.import_module("toolfold.ledger.sqlite")
    return module.SqliteLedger(path)


def _checks() -> Any:
    """From beside this file: the older tree may have none."""
    spec = importlib.util.spec_from_file_location("checked", Path(__file__).with_name("checked.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Checks()


async def main() -> None:
    """Until the other side closes the pipe."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runner = Toolfold()
        plain = await stack.enter_async_context(toolfold.Runtime(TOOLS, engine="process"))
        ledger = _sqlite_ledger(folder / "ledger.sqlite")
        kept = await stack.enter_async_context(toolfold.Runtime(TOOLS, engine="process", ledger=ledger))
        checks = _checks()
        print(json.dumps("ready"), flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            name, rest = line.split(maxsplit=1)
            if name == "valid":
                answer = checks.valid()
            elif name == "keep":
                answer = checks.keep(json.loads(rest))
            elif name == "check":
                answer = [checks.sample() for _ in range(int(rest))]
            elif name == "burst":
                answer = [await _burst(plain) for _ in range(int(rest))]
            else:
                case = BY_NAME[name.removeprefix("sqlite-")]
                runtime = kept if name.startswith("sqlite-") else plain
                answer = [await _sample(runner, runtime, case) for _ in range(int(rest))]
            print(json.dumps(answer), flush=True)
        await ledger.close()


async def _sample(runner: Toolfold, runtime: toolfold.Runtime, case: Case) -> float:
    await asyncio.sleep(PAUSE_SECONDS)
    if isinstance(case, MemoryCase):
        async with runner.paused(case.text, case.count) as pids:
            return sum(map(pss_bytes, pids)) / len(pids) * FACTORS["MB"]
    if isinstance(case, RateCase):
        return await _seconds_of_many(runtime, case)
    began = time.perf_counter()
    outcome = await runtime.run(case.text)
    seconds = time.perf_counter() - began
    assert outcome.value == case.expects, outcome
    return seconds / case.per * FACTORS[case.unit]


async def _burst(runtime: toolfold.Runtime) -> float:
    """Milliseconds for one of 20 programs that one client runs without a pause between them."""
    await asyncio.sleep(PAUSE_SECONDS)
    began = time.perf_counter()
    for _ in range(20):
        await runtime.run("pass")
    return (time.perf_counter() - began) / 20 * FACTORS["ms"]


async def _seconds_of_many(runtime: toolfold.Runtime, case: RateCase) -> float:
    """Milliseconds for one of 400 programs, so that less is better in every row."""

    async def some() -> None:
        for _ in range(100):
            await runtime.run(case.text)

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(case.in_flight)))
    return (time.perf_counter() - began) / 0.4


if __name__ == "__main__":
    asyncio.run(main())
