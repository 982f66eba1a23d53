"""The command: `python -m bench`."""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from rich.console import Console

from bench import record, report, tricks
from bench.cases import CASES
from bench.measure import measure
from bench.runners import RUNNERS


def main() -> int:
    """Exit status 0 if every target that was measured is reached."""
    options = _options()
    if options.tricks:
        return tricks.main()
    console = Console(width=max(Console().width, 150))
    progress = Console(stderr=True)
    cases = [case for case in CASES if not options.only or case.name in options.only]
    say = progress.print if progress.is_terminal else _say_nothing
    passes = 1 if options.quick else options.passes
    rounds = 3 if options.quick and options.rounds is None else options.rounds
    results = asyncio.run(measure(cases, RUNNERS, passes=passes, rounds=rounds, say=say))
    is_good = report.show(results, cases, console)
    paths = [options.json] if options.only else [options.json, record.FOLDER / "engines.json"]
    for path in paths:  # the second is what `make bench NAME=report` reads, so it has every case
        report.write(results, cases, path)
    console.print(f"written to {' and '.join(map(str, paths))}", highlight=False)
    return 0 if is_good else 1


def _say_nothing(_: str) -> None:
    return


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure this engine beside its peers.")
    parser.add_argument("--quick", action="store_true", help="one pass of three rounds")
    parser.add_argument("--only", action="append", metavar="CASE", choices=[case.name for case in CASES])
    parser.add_argument("--rounds", type=int, metavar="N", help="samples of each case in each pass")
    parser.add_argument("--passes", type=int, default=3, metavar="N", help="how often to go through all cases")
    parser.add_argument("--tricks", action="store_true", help="each trick of this engine, with it and without it")
    default = Path(__file__).parent / "out" / time.strftime("%Y%m%d-%H%M%S.json")
    parser.add_argument("--json", type=Path, default=default, metavar="PATH", help="default: bench/out/TIME.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
