"""What each trick of the process engine gains: `make bench ARGS=--tricks`.

Two trees run at the same time and take turns: this one, and a copy of it in which one trick is taken out by a few
lines at the end of the module that has it. A trick that gains less than 5 % on its own row does not pay for its keep.
"""

import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from bench.pairs import ROOT, ROUNDS, Side, interval

PAIRS = 4
BLOCKS = 2
WORTH = 1.05
"""What a trick must gain on its own row to stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trick:
    """Something that is there for speed or memory alone."""

    name: str
    case: str
    """The row that it is for."""
    module: ModuleType
    """Where it is."""
    without: str
    """Statements at the end of that module that take it out: each gives a name or an attribute another value."""
    gains: str
    """One sentence on why it is there."""


def main(tricks: Sequence[Trick]) -> int:
    """Exit status 1 if a trick is not worth its keep."""
    print(f"{'trick':24} {'case':12} {'with':>9} {'without':>9}   ratio  95 % interval")
    is_good = True
    for trick in tricks:
        with _tree_without(trick) as tree:
            ratios, figures = _measure(tree, trick.case)
        ratio, low, high = interval(ratios)
        medians = [statistics.median(side) for side in figures]
        verdict = "" if high >= WORTH else "  NOT WORTH IT"
        is_good = is_good and not verdict
        row = f"{trick.name:24} {trick.case:12} {medians[0]:9.3f} {medians[1]:9.3f}   {ratio:.3f}"
        print(f"{row}  {low:.3f}-{high:.3f}{verdict}", flush=True)
    return int(not is_good)


@contextmanager
def _tree_without(trick: Trick) -> Iterator[Path]:
    tree = ROOT / "build" / "trees" / f"without-{trick.name.replace(' ', '-')}"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("src", "bench"):
        shutil.copytree(
            ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "out", "requirements")
        )
    assert trick.module.__file__ is not None
    with (tree / Path(trick.module.__file__).relative_to(ROOT)).open("a", encoding="utf-8") as file:
        file.write(f"\n{trick.without}\n")
    try:
        yield tree
    finally:
        shutil.rmtree(tree)


def _measure(tree: Path, case: str) -> tuple[list[float], tuple[list[float], list[float]]]:
    """For each pair, how much longer it takes without; and the medians of both sides."""
    ratios: list[float] = []
    figures: tuple[list[float], list[float]] = ([], [])
    for _ in range(BLOCKS):
        sides = Side(ROOT), Side(tree)
        for side in sides:
            side.read()
            side.sample(case)
        for pair in range(PAIRS):
            taken: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS[case]):
                for number in (0, 1) if pair % 2 else (1, 0):
                    taken[number].append(sides[number].sample(case))
            medians = [statistics.median(samples) for samples in taken]
            ratios.append(medians[1] / medians[0])
            figures[0].append(medians[0])
            figures[1].append(medians[1])
        for side in sides:
            side.close()
    return ratios, figures
