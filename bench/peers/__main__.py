"""The command: `python -m bench.peers`. It ends with status 0 when it came to the end, targets met or not."""

import argparse
import asyncio
import sys
from pathlib import Path

from rich.console import Console

from bench import record
from bench.languages import __main__ as languages
from bench.peers import report
from bench.peers.client import workers
from bench.peers.measure import SPEED_CASES, measure
from bench.peers.roster import FLOOR, OURS, SPEED_PEERS

DEFAULT = record.FOLDER / "peers.json"


async def main() -> int:
    options = _options()
    progress = Console(stderr=True, highlight=False)
    console = Console(width=max(Console().width, 160))
    cases = [case for case in SPEED_CASES if not options.only or case.name in options.only]
    peers = [peer for peer in SPEED_PEERS if not options.peer or peer in (FLOOR, OURS, *options.peer)]
    passes, rounds = (1, 2) if options.quick else (options.passes, options.rounds)
    async with workers(peers, "bench.tools", progress.print) as opened:
        results = await measure(opened, cases, passes=passes, rounds=rounds, say=progress.print)
    report.show(results, cases, console)
    # A part of the table is no figure for the docs.
    path = options.json or (None if options.only or options.peer else DEFAULT)
    if path:
        report.write(results, cases, path, how=f"{passes} × {rounds} rounds")
        console.print(f"\nwritten to {path}\n", highlight=False)
    if not options.only:
        await languages.run(options.peer)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="The cases of `make bench` on peers.")
    parser.add_argument("--quick", action="store_true", help="one pass of two rounds")
    parser.add_argument(
        "--only",
        action="append",
        metavar="CASE",
        choices=[case.name for case in SPEED_CASES],
        help="without the language table",
    )
    parser.add_argument("--peer", action="append", metavar="PEER", choices=SPEED_PEERS)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="samples of each case in each pass")
    parser.add_argument("--passes", type=int, default=2, metavar="N", help="how often to go through all cases")
    parser.add_argument("--json", type=Path, metavar="PATH", help="default, if all is measured: build/bench/peers.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
