"""Runs the checker: `python -m tests.faults --minutes 10 --target sqlite`. Prints counts; fails on a violation."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.clients import Client, Uploader
from tests.faults.judge import violations
from tests.faults.runner import Runner
from tests.faults.servers import TOOLS
from tests.faults.targets import Target, running_target

_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to."""

    ends: Counter[str]
    faults: Counter[str]
    requests: int
    refusals: Counter[str]
    effects: int
    files: int
    violations: list[str]

    def lines(self) -> list[str]:
        programs = ", ".join(f"{count} {end}" for end, count in sorted(self.ends.items()))
        counts = f"{self.requests} requests, {self.effects} effects, {self.files} files"
        return [
            f"programs: {self.ends.total()} ({programs}), {counts}",
            f"faults: {self.faults.total()}",
            *(f"  {count:6} × {name}" for name, count in sorted(self.faults.items())),
            f"requests that were sent again: {self.refusals.total()}",
            *(f"  {count:6} × after {text}" for text, count in self.refusals.most_common(15)),
            f"violations: {len(self.violations)}",
            *self.violations[:_SHOWN],
        ]


@dataclass(frozen=True, slots=True)
class Workers:
    """Everyone who uses the servers while they are disturbed."""

    clients: Sequence[Client]
    uploaders: Sequence[Uploader]
    runners: Sequence[Runner] = ()

    async def work(self, until: float) -> None:
        everyone: list[Client | Uploader | Runner] = [*self.clients, *self.uploaders, *self.runners]
        await asyncio.gather(*(one.work(until) for one in everyone))

    async def report(self, target: Target) -> Report:
        """Look once more at what is there, and compare."""
        await asyncio.gather(*(one.look() for one in self.uploaders))
        operations = [
            one for all_ in (self.clients, self.uploaders, self.runners) for who in all_ for one in who.operations
        ]
        sessions = [session for one in self.uploaders for session in one.sessions]
        done = [*target.done, *(line for runner in self.runners for line in runner.done)]
        talks = [one.talk for one in (*self.clients, *self.uploaders)]
        for talk in talks:
            await talk.close()
        return Report(
            Counter(one.end for one in operations),
            sum((runner.faults for runner in self.runners), target.faults),
            sum(talk.requests for talk in talks),
            sum((talk.refusals for talk in talks), Counter()),
            len(done),
            sum(len(session.uploaded) + len(session.left) for session in sessions),
            violations(operations, done, sessions, [request for talk in talks for request in talk.broken]),
        )


async def check(target: Target, workers: Workers, seconds: float, *, seed: int) -> Report:
    """Let everyone work under faults, then quietly to their end, and compare."""
    await asyncio.gather(*(server.ready() for server in target.servers))
    until = time.monotonic() + seconds
    working = asyncio.ensure_future(workers.work(until))
    chance = random.Random(seed)
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(0.1, 1.5))
        await target.disturb()
    await target.calm()
    await working
    return await workers.report(target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--target", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--uploaders", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--logs", action="store_true", help="print the servers' logs although nothing was violated")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="toolfold-faults-") as folder,
        running_target(given.target, Path(folder), given.seed) as target,
    ):
        if target is None:
            print("NOT RUN: no redis-server is available here")
            return 0
        workers = Workers(
            [Client(number, target.bases) for number in range(given.clients)],
            [Uploader(number, target.bases) for number in range(given.uploaders)],
            [Runner(0, Path(folder) / "runs", TOOLS)] if given.target == "sqlite" else [],
        )
        report = asyncio.run(check(target, workers, given.minutes * 60, seed=given.seed))
        if report.violations or given.logs:
            for server in target.servers:
                print(f"--- {server.base}", server.log[-20_000:], sep="\n")
        if report.violations:
            kept = tempfile.mkdtemp(prefix="toolfold-violated-")
            print(f"--- what was on disk is kept in {kept}")
            shutil.copytree(folder, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("files"))
    print(f"{given.target}, {given.minutes:g} minutes, seed {given.seed}", *report.lines(), sep="\n")
    return bool(report.violations)


if __name__ == "__main__":
    sys.exit(main())
