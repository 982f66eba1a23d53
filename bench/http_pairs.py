"""The HTTP interface of this tree beside an older commit's, in pairs: `python -m bench.http_pairs COMMIT`.

Both servers run at the same time, each with a SQLite ledger of its own, and take turns. What a pair and its interval
are is in `bench.pairs`. Both are started anew for each block of pairs.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from bench.http import Client, loop, round_trip, served
from bench.pairs import PAIRS_PER_BLOCK, ROOT, interval, older_tree
from bench.processes import pss_bytes

ROUNDS = 60
CLIENTS = 20
PAUSED = 40


async def continuation(port: int, _: int) -> float:
    """As in `bench.http`."""
    return await round_trip(port, ROUNDS)


async def start(port: int, _: int) -> float:
    """Milliseconds for a program without a pause, the median of some."""
    seconds = []
    async with Client(port) as client:
        for _ in range(20):
            await asyncio.sleep(0.005)  # as people do, and so that the next guest is there
            began = time.perf_counter()
            body = await client.start("print(1)")
            seconds.append(time.perf_counter() - began)
            assert body["status"] == "completed", body
    return statistics.median(seconds) * 1000


async def clients(port: int, _: int) -> float:
    """Seconds for some clients with ten rounds each, all at once."""

    async def one() -> None:
        async with Client(port) as client:
            body = await client.start(loop(10))
            while body["status"] == "tool_call_required":
                body = await client.go_on(body)
            assert body["status"] == "completed", body

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CLIENTS)))
    return time.perf_counter() - began


async def server_memory(port: int, server: int) -> float:
    """Megabytes of the server itself while some executions are paused."""
    async with Client(port) as client:
        for _ in range(PAUSED):
            assert (await client.start(loop(1), 5))["status"] == "tool_call_required"
    return pss_bytes(server) / 1e6


CASES: dict[str, Callable[[int, int], Awaitable[float]]] = {
    "continuation": continuation,
    "start": start,
    "clients": clients,
    "memory": server_memory,
}


def main() -> int:
    """Exit status 1 where a row's whole interval is above the bound."""
    parser = argparse.ArgumentParser(prog="python -m bench.http_pairs", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="a multiple of 4 (default: 20)")
    parser.add_argument("--only", action="append", metavar="CASE", choices=list(CASES))
    parser.add_argument("--bound", type=float, default=1.03, metavar="RATIO", help="default: 1.03")
    options = parser.parse_args()
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in options.only or CASES}
    with older_tree(options.commit) as old:
        for block in range(options.pairs // PAIRS_PER_BLOCK):
            with ExitStack() as stack:
                servers = [
                    stack.enter_context(served(Path(stack.enter_context(tempfile.TemporaryDirectory())), tree=tree))
                    for tree in (old, ROOT)
                ]
                asyncio.run(_block(servers, figures))
            print(f"block {block + 1}", file=sys.stderr)
    is_over = False
    print(f"{'case':14} {'before':>10} {'now':>10}   ratio  95 % interval")
    for name, pairs in figures.items():
        ratio, low, high = interval([now / before for before, now in pairs])
        before, now = (statistics.median(side) for side in zip(*pairs, strict=True))
        mark = "  OVER" if low > options.bound else ""
        is_over = is_over or bool(mark)
        print(f"{name:14} {before:10.3f} {now:10.3f}   {ratio:.3f}  {low:.3f}-{high:.3f}{mark}")
    return int(is_over)


async def _block(servers: list[tuple[int, int]], figures: dict[str, list[tuple[float, float]]]) -> None:
    for server in servers:  # the first time loads libraries and fills caches
        for name in ("continuation", "start"):
            await CASES[name](*server)
    for pair in range(PAIRS_PER_BLOCK):
        for name, pairs in figures.items():
            taken: dict[int, float] = {}
            for side in (0, 1) if pair % 2 else (1, 0):
                taken[side] = await CASES[name](*servers[side])
            pairs.append((taken[0], taken[1]))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"git failed: {error}")
