"""`make test NAME=batch`: `toolfold batch` with 20,000 programs, killed at random moments and started again each time.

Every id must be in the output once, with its value, and the memory of the command must not grow while it runs.
With `--ray` the programs run on a Ray cluster of three nodes on this machine.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple

from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT, TOOLS

BATCH: Final = ("batch", "programs.jsonl", "--tools", "tools.py", "--out", "results.jsonl")
LOOK_SECONDS: Final = 0.005
FLAT_MEGABYTES: Final = 16.0
"""How much the memory may grow after the first tenth of the programs of one start."""


class Start(NamedTuple):
    """One start of the command."""

    exit_code: int
    written: int
    """Results in the file at its end."""
    megabytes: list[tuple[int, float]]
    """Memory of the command, each time with how many results there were."""

    @property
    def grown_megabytes(self) -> float:
        """From the first tenth of what it wrote to its end; 0 if it was killed before."""
        if not self.megabytes:
            return 0.0
        first, last = self.megabytes[0][0], self.megabytes[-1][0]
        warm = [held for written, held in self.megabytes if written >= first + (last - first) / 10]
        return max(warm) - warm[0]


def write_programs(folder: Path, count: int) -> None:
    """Programs with a call each, and the tools file."""
    (folder / "tools.py").write_text(TOOLS)
    with (folder / "programs.jsonl").open("w") as opened:
        for number in range(count):
            opened.write(json.dumps({"id": f"p{number}", "program": f"await price('ACME') + {number}"}) + "\n")


def start(folder: Path, *options: str, kill_at: int | None, chance: random.Random) -> Start:
    """Run the command to its end, or until so many results are there and then a random moment longer."""
    results, whole = folder / "results.jsonl", _Lines(folder / "results.jsonl")
    megabytes: list[tuple[int, float]] = []
    with (
        (folder / "stderr").open("ab") as said,
        subprocess.Popen([*COMMAND, *BATCH, *options], env=ENVIRONMENT, cwd=folder, stderr=said) as process,
    ):
        before = whole.count()
        while _runs(process, LOOK_SECONDS):
            written = whole.count()
            if written > before:
                megabytes.append((written, _megabytes(process.pid)))
            if kill_at is not None and written >= kill_at:
                _runs(process, chance.random() / 50)
                process.send_signal(signal.SIGKILL)
    assert results.exists()
    return Start(process.wait(), whole.count(), megabytes)


def killed_and_started_again(folder: Path, *options: str, count: int, kills: int, chance: random.Random) -> list[Start]:
    """All starts; the last one runs to its end."""
    # Not to the very end: a command that has ended cannot be killed.
    moments = sorted(chance.sample(range(1, count * 9 // 10), kills))
    return [start(folder, *options, kill_at=one, chance=chance) for one in (*moments, None)]


def mistakes(folder: Path, count: int) -> list[str]:
    """What is wrong with the output."""
    values: dict[str, object] = {}
    wrong = []
    for line in (folder / "results.jsonl").read_text().splitlines():
        one = json.loads(line)
        if one["id"] in values:
            wrong.append(f"{one['id']} is there twice")
        values[one["id"]] = one["value"]
    wrong += [f"p{n} is {values.get(f'p{n}')!r}" for n in range(count) if values.get(f"p{n}") != 12.5 + n]
    return wrong + [f"{len(values) - count} too many"] * (len(values) > count)


class _Lines:
    """How many whole lines a file has, read on from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = self._lines = 0

    def count(self) -> int:
        if self._path.exists():
            # The next start takes off a part of a line, which is no line, and writes on from there.
            with self._path.open("rb") as opened:
                opened.seek(self._offset)
                read = opened.read()
            end = read.rfind(b"\n") + 1
            self._lines += read.count(b"\n", 0, end)
            self._offset += end
        return self._lines


def _runs(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it still does after that time."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def _megabytes(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:")), 0.0)


@contextmanager
def _on_ray() -> Iterator[tuple[str, ...]]:
    # Here, not at the top: an extra.
    from tests.ray.three_nodes import three_nodes

    with three_nodes():
        ENVIRONMENT["RAY_ADDRESS"] = os.environ["RAY_ADDRESS"]
        yield ("--engine", "ray")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interfaces.cli.killed_batch")
    parser.add_argument("--programs", type=int, default=20_000, metavar="N")
    parser.add_argument("--kills", type=int, default=10, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(1000), metavar="N", help="of the random moments")
    parser.add_argument("--ray", action="store_true", help="on three Ray nodes on this machine")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, _on_ray() if chosen.ray else nullcontext(()) as options:
        folder, began = Path(name), time.monotonic()
        folder.chmod(0o755)
        write_programs(folder, chosen.programs)
        chance = random.Random(chosen.seed)
        print(f"{chosen.programs} programs, {chosen.kills} kills, --seed {chosen.seed}", flush=True)
        starts = killed_and_started_again(folder, *options, count=chosen.programs, kills=chosen.kills, chance=chance)
        wrong = mistakes(folder, chosen.programs)
    for number, one in enumerate(starts, 1):
        held = f"{one.megabytes[0][1]:.0f} to {max(mb for _, mb in one.megabytes):.0f} MB" if one.megabytes else "-"
        print(f"start {number}: exit {one.exit_code}, {one.written} results, {held}, {one.grown_megabytes:+.1f} MB")
    wrong += [f"start {n} was not killed" for n, one in enumerate(starts[:-1], 1) if one.exit_code != -signal.SIGKILL]
    wrong += [f"the last start ended with {starts[-1].exit_code}"] * (starts[-1].exit_code != 0)
    wrong += [f"it grew by {one.grown_megabytes:.1f} MB" for one in starts if one.grown_megabytes > FLAT_MEGABYTES]
    rate = chosen.programs / (time.monotonic() - began)
    print(f"{rate:.0f} programs a second, all starts included")
    print("\n".join(wrong[:20]) or f"each of {chosen.programs} ids is there once, with its value; memory is flat")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
