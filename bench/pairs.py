"""This tree beside an older commit of it, in pairs: `python -m bench.pairs COMMIT`.

Both sides run at the same time and take turns, round by round, so that a noisy moment hits both.
A pair is one median of each side; the figure is the geometric mean of the pairs' ratios with the
interval that holds it 95 times in 100. Both sides are started anew for each block of pairs,
because where a process happens to lie in memory and on the cores decides some percent.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import record

ROOT = Path(__file__).parent.parent
ROUNDS = {
    "empty": 25,
    "sequential": 7,
    "gather": 5,
    "rows": 3,
    "pandas": 5,
    "rate": 1,
    "burst": 3,
    "sqlite-empty": 15,
    "sqlite-sequential": 5,
    "sqlite-gather": 3,
    "paused": 1,
    "check": 3,
}
"""Samples of each side in one pair."""
PAIRS_PER_BLOCK = 4
# Student's t for a two-sided interval of 95 %, by degrees of freedom; beyond the table it is near enough to 2.
T = {3: 3.18, 7: 2.36, 11: 2.2, 15: 2.13, 19: 2.09, 23: 2.07, 27: 2.05, 31: 2.04}


class Side:
    """A worker in one tree."""

    def __init__(self, tree: Path) -> None:
        environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", Path(__file__).with_name("pairs_worker.py")],
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> Any:
        """The worker's next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a side ended before it answered; its words are above")
        return json.loads(line)

    def ask(self, line: str) -> Any:
        """The answer to a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.read()

    def sample(self, name: str) -> float:
        """One figure of one case."""
        figure: float = self.ask(f"{name} 1")[0]
        return figure

    def close(self) -> None:
        """Waits for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    """Exit status 1 where a row's whole interval is above the bound."""
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="a multiple of 4 (default: 20)")
    parser.add_argument("--only", action="append", metavar="CASE", choices=list(ROUNDS))
    parser.add_argument("--bound", type=float, default=1.03, metavar="RATIO", help="default: 1.03")
    options = parser.parse_args()
    names = options.only or list(ROUNDS)
    with older_tree(options.commit) as old:
        ratios, figures = _measure(old, names, options.pairs // PAIRS_PER_BLOCK)
    rows = {name: _row(ratios[name], figures[name]) for name in names}
    print(f"{'case':18} {'before':>10} {'now':>10}   ratio  95 % interval")
    for name, row in rows.items():
        interval = f"{row['low']:.3f}-{row['high']:.3f}{'  OVER' if row['low'] > options.bound else ''}"
        print(f"{name:18} {row['before']:10.3f} {row['now']:10.3f}   {row['ratio']:.3f}  {interval}")
    record.FOLDER.mkdir(parents=True, exist_ok=True)
    (record.FOLDER / "pairs.json").write_text(json.dumps({"commit": options.commit, "rows": rows}, indent=1))
    return int(any(row["low"] > options.bound for row in rows.values()))


@contextmanager
def older_tree(commit: str) -> Iterator[Path]:
    """The older tree, beside this one for as long as it is measured."""
    name = subprocess.check_output(["git", "rev-parse", "--short", commit], cwd=ROOT, text=True).strip()
    path = ROOT / "build" / "trees" / name
    if not path.exists():
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", path, name], cwd=ROOT, check=True)
    try:
        yield path
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", path], cwd=ROOT, check=True)


def _measure(
    old: Path, names: list[str], blocks: int
) -> tuple[dict[str, list[float]], dict[str, tuple[list[float], list[float]]]]:
    ratios: dict[str, list[float]] = {name: [] for name in names}
    figures: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}
    for block in range(blocks):
        before, now = sides = (Side(old), Side(ROOT))
        for side in sides:
            side.read()
        if "check" in names:
            _agree_on_texts(*sides)
        for name in names:  # the first time loads libraries and fills caches
            for side in sides:
                side.sample(name)
        for pair in range(PAIRS_PER_BLOCK):
            order = sides if pair % 2 else sides[::-1]
            for name in names:
                taken: dict[Side, list[float]] = {before: [], now: []}
                for _ in range(ROUNDS[name]):
                    for side in order:
                        taken[side].append(side.sample(name))
                old_median, new_median = (statistics.median(taken[side]) for side in sides)
                figures[name][0].append(old_median)
                figures[name][1].append(new_median)
                ratios[name].append(new_median / old_median)
        for side in sides:
            side.close()
        print(f"block {block + 1} of {blocks}", file=sys.stderr)
    return ratios, figures


def _agree_on_texts(before: Side, now: Side) -> None:
    """Only programs that both would run: to refuse one takes another time than to pass it."""
    taken_now = set(now.ask("valid -"))
    names = [name for name in before.ask("valid -") if name in taken_now]
    for side in (before, now):
        side.ask(f"keep {json.dumps(names)}")


def _row(ratios: list[float], figures: tuple[list[float], list[float]]) -> dict[str, float]:
    ratio, low, high = interval(ratios)
    before, now = map(statistics.median, figures)
    return {"before": before, "now": now, "ratio": ratio, "low": low, "high": high}


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The geometric mean of ratios, and the bounds that hold it 95 times in 100."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    reach = T.get(len(logs) - 1, 2.0) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


if __name__ == "__main__":
    sys.exit(main())
