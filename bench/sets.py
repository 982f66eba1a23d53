"""What a library set costs the programs that do not import it: `python -m bench.sets`.

Two runtimes side by side, one without sets and one with them, run the same empty program in turn, as `bench.pairs`
compares two trees; both are started anew for each block.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bench.pairs import PAIRS_PER_BLOCK, interval
from toolfold import Runtime
from toolfold.models import InstalledSet

ROUNDS = 40
"""Samples of each side in one pair."""
BOUND = 1.03


def main() -> int:
    """Exit status 1 where the whole interval is above the bound."""
    parser = argparse.ArgumentParser(prog="python -m bench.sets", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="a multiple of 4 (default: 20)")
    parser.add_argument("--sets", type=int, default=2, metavar="N", help="how many are configured (default: 2)")
    parser.add_argument("--used", action="store_true", help="after a program that imports from each of them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="toolfold-sets-") as folder:
        os.chmod(folder, 0o755)  # the guest is another user
        sets = [_written(Path(folder), number) for number in range(options.sets)]
        first = [f"import unused_{number}" for number in range(options.sets if options.used else 0)]
        print(f"{options.sets} sets{' in use' if first else ', unused'}: ", end="", flush=True)
        return 1 if measure(sets, options.pairs, first) > BOUND else 0


def _written(folder: Path, number: int) -> InstalledSet:
    place = folder / f"set{number}"
    place.mkdir(mode=0o755)
    (place / f"unused_{number}.py").write_text("", "utf-8")
    return InstalledSet(name=f"set{number}-1", folder=str(place), modules=frozenset({f"unused_{number}"}))


def measure(sets: Sequence[InstalledSet], pairs: int, first: Sequence[str] = ()) -> float:
    """Prints what an empty program takes with and without these sets; the lower bound of the ratio."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs // PAIRS_PER_BLOCK):
        asyncio.run(_block(sets, first, taken))
    ratio, low, high = interval([equipped / bare for bare, equipped in zip(*taken, strict=True)])
    without, beside = (statistics.median(side) * 1000 for side in taken)
    print(
        f"an empty program takes {without:.3f} ms without and {beside:.3f} ms with them, "
        f"ratio {ratio:.3f} ({low:.3f}-{high:.3f}), {len(taken[0])} pairs"
    )
    return low


async def _block(sets: Sequence[InstalledSet], first: Sequence[str], taken: tuple[list[float], list[float]]) -> None:
    async with AsyncExitStack() as stack:
        sides = [
            await stack.enter_async_context(Runtime(engine="process", engine_options={"library_sets": one}))
            for one in ((), sets)
        ]
        for text in first:
            await sides[1].run(text)
        for side in sides:  # the first times fill caches
            for _ in range(5):
                await _sample(side)
        for pair in range(PAIRS_PER_BLOCK):
            found: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                for at in (0, 1) if pair % 2 else (1, 0):
                    found[at].append(await _sample(sides[at]))
            for side_times, one in zip(taken, found, strict=True):
                side_times.append(statistics.median(one))


async def _sample(runtime: Runtime) -> float:
    began = time.perf_counter()
    await runtime.run("pass")
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.01)  # until another guest waits
    return seconds


if __name__ == "__main__":
    sys.exit(main())
