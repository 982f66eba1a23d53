"""The command: `python -m bench.languages`. It ends with status 0 when it came to the end."""

import argparse
import asyncio
import sys
from pathlib import Path

from rich.console import Console

from bench import record
from bench.languages import report
from bench.languages.corpus import programs
from bench.languages.measure import measure
from bench.peers.roster import LANGUAGE_PEERS, OURS


async def main() -> int:
    options = _options()
    progress = Console(stderr=True, highlight=False)
    console = Console(width=max(Console().width, 160))
    peers = [peer for peer in LANGUAGE_PEERS if not options.peer or peer in (OURS, *options.peer)]
    corpus = programs()
    found = await measure(peers, corpus, progress.print)
    report.show(found, corpus, console)
    report.write(found, corpus, options.json)
    console.print(f"\nwritten to {options.json}", highlight=False)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.languages", description="Which Python each code mode speaks."
    )
    parser.add_argument("--quick", action="store_true", help="nothing: all programs take seconds")
    parser.add_argument("--peer", action="append", metavar="PEER", choices=LANGUAGE_PEERS)
    default = record.FOLDER / "languages.json"
    parser.add_argument(
        "--json", type=Path, default=default, metavar="PATH", help="default: build/bench/languages.json"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
