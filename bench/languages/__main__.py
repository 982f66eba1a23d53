"""The command: `python -m bench.languages`. It ends with status 0 when it came to the end."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import record
from bench.languages import report
from bench.languages.corpus import programs
from bench.languages.measure import measure
from bench.peers.roster import LANGUAGE_PEERS, OURS

DEFAULT = record.FOLDER / "languages.json"


async def main() -> int:
    options = _options()
    await run(options.peer, options.json)
    return 0


async def run(chosen: Sequence[str] | None, path: Path | None = None) -> None:
    """The table of ours and the chosen ones; of all, if none is."""
    console = Console(width=max(Console().width, 160))
    peers = [peer for peer in LANGUAGE_PEERS if not chosen or peer in (OURS, *chosen)]
    corpus = programs()
    found = await measure(peers, corpus, Console(stderr=True, highlight=False).print)
    report.show(found, corpus, console)
    path = path or (None if chosen else DEFAULT)  # a part of the table is no figure for the docs
    if path:
        report.write(found, corpus, path)
        console.print(f"\nwritten to {path}", highlight=False)


def _options() -> argparse.Namespace:
    words = "Which Python each code mode speaks."
    parser = argparse.ArgumentParser(prog="python -m bench.languages", description=words)
    parser.add_argument("--peer", action="append", metavar="PEER", choices=LANGUAGE_PEERS)
    words = "default, if all are asked: build/bench/languages.json"
    parser.add_argument("--json", type=Path, metavar="PATH", help=words)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
