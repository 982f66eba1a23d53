"""Asks the workers in turns: in each round every peer once, in an order that is drawn anew."""

import random
import time
from collections.abc import Callable, Mapping, Sequence

from bench.cases import CASES, Case, MemoryCase, RateCase
from bench.measure import FACTORS, Cell, Results
from bench.peers.client import Worker

SPEED_CASES = tuple(case for case in CASES if not isinstance(case, MemoryCase))
TIMES = {"empty": 5, "sequential": 3, "gather": 3, "pandas": 3}
"""Runs behind one sample, of which the median counts; 1 where one run takes long enough."""
PATIENCE_SECONDS = 15.0
"""What one peer may use of one case in one pass, once it has two samples."""


async def measure(
    workers: Mapping[str, Worker], cases: Sequence[Case], *, passes: int, rounds: int, say: Callable[[str], None]
) -> Results:
    """Every case on every peer."""
    results: Results = {case.name: {peer: Cell() for peer in workers} for case in cases}
    for number in range(passes):
        for case in cases:
            say(f"pass {number + 1} of {passes}: {case.title}")
            await _one_pass(workers, case, results[case.name], 1 if isinstance(case, RateCase) else rounds)
    return results


async def _one_pass(workers: Mapping[str, Worker], case: Case, cells: dict[str, Cell], rounds: int) -> None:
    used = dict.fromkeys(workers, 0.0)
    for cell in cells.values():
        cell.passes.append([])
        cell.higher_is_better = case.unit == "/s"
    for number in range(rounds + 1):
        for peer in random.sample(list(workers), len(workers)):
            cell = cells[peer]
            if cell.error or (len(cell.passes[-1]) > 1 and used[peer] > PATIENCE_SECONDS):
                continue
            began = time.perf_counter()
            answer = await _ask(workers[peer], case)
            used[peer] += time.perf_counter() - began
            if "error" in answer:
                cell.error = answer["error"]
            elif number:  # the first round loads libraries and fills caches
                figure = answer["seconds"] if "seconds" in answer else answer["rate"]
                cell.passes[-1].append(figure * FACTORS[case.unit])


async def _ask(worker: Worker, case: Case) -> dict:
    if isinstance(case, RateCase):
        return await worker.ask(do="rate", case=case.name)
    return await worker.ask(do="time", case=case.name, times=TIMES.get(case.name, 1))
