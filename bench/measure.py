"""Runs cases on runners, interleaved, so that a noisy moment hits everyone.

A pass goes through all cases; within a case every round asks each runner once. A figure is the
median of a pass; where there are several passes, that of the quietest one. All samples are kept.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import toolfold
from bench.cases import Case, MemoryCase, RateCase
from bench.processes import pss_bytes
from bench.runners import Runner

PAUSE_SECONDS = 0.012
"""Before each sample, for every runner: pools fill up again, the last one's exits are over."""
PATIENCE_SECONDS = 2.0
"""What one runner may use of one case in one pass, once it has two samples."""

FACTORS = {"ms": 1e3, "µs": 1e6, "/s": 1.0, "MB": 1e-6}


async def one_run(runtime: toolfold.Runtime, text: str) -> float:
    """Seconds of one program that finishes, after the pause that every sample has."""
    await asyncio.sleep(PAUSE_SECONDS)
    gc.collect()
    began = time.perf_counter()
    outcome = await runtime.run(text)
    seconds = time.perf_counter() - began
    assert outcome.status == "finished", outcome
    return seconds


@dataclass(slots=True)
class Cell:
    """What one runner did with one case."""

    passes: list[list[float]] = field(default_factory=list)
    error: str = ""
    higher_is_better: bool = False

    @property
    def figure(self) -> float | None:
        """The median of the quietest pass."""
        medians = [statistics.median(samples) for samples in self.passes if samples]
        if self.error or not medians:
            return None
        return max(medians) if self.higher_is_better else min(medians)

    @property
    def plain(self) -> dict[str, object]:
        """For `bench.record`."""
        if self.error:
            return {"error": self.error}
        return {"figure": self.figure, "spread": self.spread, "passes": self.passes}

    @property
    def spread(self) -> float | None:
        """Interquartile range over all samples."""
        samples = [sample for one in self.passes for sample in one]
        if self.error or len(samples) < 4:
            return None
        low, _, high = statistics.quantiles(samples, n=4)
        return high - low


Results = dict[str, dict[str, Cell]]
"""By case, then by runner."""


def plain(results: Results, cases: Iterable[Case]) -> dict[str, object]:
    """What `bench.record` writes of these cases."""
    return {
        case.name: {
            "title": case.title,
            "unit": case.unit,
            "runners": {name: cell.plain for name, cell in results[case.name].items()},
        }
        for case in cases
    }


async def measure(
    cases: Iterable[Case], kinds: Sequence[type[Runner]], *, passes: int, rounds: int | None, say: Callable[[str], None]
) -> Results:
    """Every case on every runner."""
    cases = tuple(cases)
    results: Results = {case.name: {kind.name: Cell() for kind in kinds} for case in cases}
    async with AsyncExitStack() as stack:
        say("starting the runners")
        runners = []
        for kind in kinds:
            try:
                runners.append(await stack.enter_async_context(kind()))
            # A peer that is not installed, or cannot run here, says so in each of its cells.
            except Exception as error:  # noqa: BLE001
                for cells in results.values():
                    cells[kind.name].error = _words(error)
        for number in range(passes):
            for case in cases:
                if isinstance(case, MemoryCase) and number:
                    continue  # memory has no noise to average away
                say(f"pass {number + 1} of {passes}: {case.title}")
                await _one_pass(case, runners, results[case.name], rounds or case.rounds)
    return results


async def _one_pass(case: Case, runners: list[Runner], cells: dict[str, Cell], rounds: int) -> None:
    used = dict.fromkeys(cells, 0.0)
    gc.collect()  # not before each sample: it would leave everyone with cold caches
    for runner in runners:
        cell = cells[runner.name]
        cell.higher_is_better = case.unit == "/s"
        cell.passes.append([])
        if type(case) is Case:
            await _try(cell, runner, case)  # the first time loads libraries and fills caches
            cell.passes[-1].clear()
    for _ in range(rounds if type(case) is Case else case.rounds):
        for runner in runners:
            cell = cells[runner.name]
            if cell.error or (len(cell.passes[-1]) > 1 and used[runner.name] > PATIENCE_SECONDS):
                continue
            began = time.perf_counter()
            await _try(cell, runner, case)
            used[runner.name] += time.perf_counter() - began


async def _try(cell: Cell, runner: Runner, case: Case) -> None:
    """One sample, or the runner's own words why there is none."""
    await asyncio.sleep(PAUSE_SECONDS)
    try:
        cell.passes[-1].append(await _sample(runner, case) * FACTORS[case.unit])
    # Whatever a peer raises is what it has to say about this case.
    except Exception as error:  # noqa: BLE001
        cell.error = _words(error)


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[-1]


async def _sample(runner: Runner, case: Case) -> float:
    if isinstance(case, MemoryCase):
        async with runner.paused(case.text, case.count) as pids:
            return statistics.mean(map(pss_bytes, pids)) / runner.programs_per_process
    if isinstance(case, RateCase):
        return await _rate(runner, case)
    began = time.perf_counter()
    value = await (runner.run_bash if case.language == "bash" else runner.run)(case.text)
    seconds = time.perf_counter() - began
    if value != case.expects:
        raise ValueError(f"wrong value {value!r:.60}")
    return seconds / case.per


async def _rate(runner: Runner, case: RateCase) -> float:
    async def keep_running() -> int:
        count = 0
        while time.perf_counter() < deadline:
            await runner.run(case.text)
            count += 1
        return count

    began = time.perf_counter()
    deadline = began + case.seconds
    counts = await asyncio.gather(*(keep_running() for _ in range(case.in_flight)))
    return sum(counts) / (time.perf_counter() - began)
