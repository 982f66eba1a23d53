"""Runs the checker: `python -m tests.faults --minutes 10 --target sqlite`. Prints counts; fails on a violation."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.faults.clients import Client
from tests.faults.judge import violations
from tests.faults.targets import Target, running_target


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to."""

    ends: Counter[str]
    faults: Counter[str]
    requests: int
    refusals: Counter[str]
    effects: int
    violations: list[str]

    def lines(self) -> list[str]:
        programs = ", ".join(f"{count} {end}" for end, count in sorted(self.ends.items()))
        faults = ", ".join(f"{count} × {name}" for name, count in sorted(self.faults.items()))
        return [
            f"programs: {self.ends.total()} ({programs}), {self.requests} requests, {self.effects} effects",
            f"faults: {self.faults.total()} ({faults})",
            *(f"  sent again {count} × after: {text}" for text, count in self.refusals.most_common(10)),
            f"violations: {len(self.violations)}",
            *self.violations[:50],
        ]


async def check(target: Target, seconds: float, *, clients: int, seed: int) -> Report:
    """Let clients work under faults, then quietly to their end, and compare."""
    await asyncio.gather(*(server.ready() for server in target.servers))
    until = time.monotonic() + seconds
    workers = [Client(number, target.bases) for number in range(clients)]
    working = asyncio.gather(*(worker.work(until) for worker in workers))
    chance = random.Random(seed)
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(0.2, 2))
        await target.disturb()
    await working
    operations = [one for worker in workers for one in worker.operations]
    done = target.done
    return Report(
        Counter(one.end for one in operations),
        target.faults,
        sum(worker.requests for worker in workers),
        sum((worker.refusals for worker in workers), Counter()),
        len(done),
        violations(operations, done),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--target", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="toolfold-faults-") as folder,
        running_target(given.target, Path(folder), given.seed) as target,
    ):
        if target is None:
            print("NOT RUN: no redis-server can be had here")
            return 0
        report = asyncio.run(check(target, given.minutes * 60, clients=given.clients, seed=given.seed))
        if report.violations:
            for server in Path(folder).glob("s*/log"):
                print(f"--- {server.parent.name}", server.read_text("utf-8")[-5000:], sep="\n")
    print(f"{given.target}, {given.minutes:g} minutes, seed {given.seed}", *report.lines(), sep="\n")
    return bool(report.violations)


if __name__ == "__main__":
    sys.exit(main())
