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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.faults import runner
from tests.faults.clients import Client, Uploader
from tests.faults.disk import own_disk
from tests.faults.judge import Disturbance, Done, Operation, Recorded, Violation, violations
from tests.faults.lone_server import LoneUser
from tests.faults.mcp_user import McpUser
from tests.faults.runner import Runner
from tests.faults.targets import Target, TargetKind, fault_names, running_target
from tests.faults.workers import Canceller, Detacher, Resumer, Worker

_SHOWN = 50
WORKERS: tuple[type[Worker], ...] = (Detacher, Canceller, Resumer, McpUser, LoneUser)
"""On SQLite; they have ledgers of their own."""


class User(Protocol):
    """Whoever uses commands or a server of its own."""

    operations: list[Operation]
    counts: Counter[str]
    disturbances: list[Disturbance]

    @property
    def done(self) -> list[Done]: ...
    async def work(self, until: float) -> None: ...
    async def records(self) -> list[Recorded]: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to."""

    ends: Counter[str]
    faults: Counter[str]
    requests: int
    refusals: Counter[str]
    effects: int
    files: int
    records: int
    violations: list[Violation]

    def lines(self) -> list[str]:
        programs = ", ".join(f"{count} {end}" for end, count in sorted(self.ends.items()))
        counts = f"{self.requests} requests, {self.effects} effects, {self.files} files, {self.records} records"
        kinds = Counter(violation.kind for violation in self.violations)
        return [
            f"programs: {self.ends.total()} ({programs}), {counts}",
            f"faults: {self.faults.total()}",
            *(f"  {count:6} × {name}" for name, count in sorted(self.faults.items())),
            f"requests that were sent again: {self.refusals.total()}",
            *(f"  {count:6} × after {text}" for text, count in self.refusals.most_common(15)),
            f"violations: {len(self.violations)}",
            *(f"  {count:6} × {kind}" for kind, count in sorted(kinds.items())),
            *map(str, self.violations[:_SHOWN]),
        ]


@dataclass(frozen=True, slots=True)
class Everyone:
    """All who work while something is disturbed."""

    clients: Sequence[Client]
    uploaders: Sequence[Uploader]
    users: Sequence[User] = ()

    async def work(self, until: float) -> None:
        all_: list[Client | User] = [*self.clients, *self.uploaders, *self.users]
        await asyncio.gather(*(one.work(until) for one in all_))

    async def report(self, target: Target) -> Report:
        """Look once more at what is there, and compare; each with its own tools and its own ledger."""
        await asyncio.gather(*(uploader.look() for uploader in self.uploaders))
        http = [*self.clients, *self.uploaders]
        operations = [operation for client in http for operation in client.operations]
        sessions = [session for client in http for session in client.sessions]
        done, records = target.done, await target.records()
        violated = violations(
            operations, done, sessions, broken=[request for client in http for request in client.talk.broken],
            faults=target.disturbances, records=records,
        )  # fmt: skip
        counts, effects = target.counts.copy(), len(done)
        for user in self.users:
            own, done = await user.records(), user.done
            violated += violations(user.operations, done, faults=user.disturbances, records=own)
            operations += user.operations
            records += own
            effects += len(done)
            counts += user.counts
        return Report(
            Counter(operation.end for operation in operations),
            counts,
            sum(client.talk.requests for client in http),
            sum((client.talk.refusals + client.talk.lost for client in http), Counter()),
            effects,
            sum(len(session.uploaded) + len(session.left) for session in sessions),
            len(records),
            violated,
        )

    async def close(self) -> None:
        for client in (*self.clients, *self.uploaders):
            await client.talk.close()
        for user in self.users:
            await user.close()


async def check(target: Target, everyone: Everyone, seconds: float, *, seed: int) -> Report:
    """Let everyone work under faults, then quietly to their end, and compare."""
    try:
        await asyncio.gather(*(server.ready() for server in target.servers))
        until = time.monotonic() + seconds
        working = asyncio.ensure_future(everyone.work(until))
        chance = random.Random(seed)
        while time.monotonic() < until:
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            await target.disturb()
        await target.calm()
        await working
        return await everyone.report(target)
    finally:
        await everyone.close()


def all_faults(kind: TargetKind) -> list[str]:
    """By name: what can be done to a target, and what the users of commands do."""
    if kind == "redis":
        return fault_names(kind)
    return [*fault_names(kind), *runner.FAULTS, *(name for worker in WORKERS for name in worker.faults)]


def chosen(kind: TargetKind, only: Sequence[str], without: Sequence[str]) -> frozenset[str]:
    """The faults whose names contain one of `only`, if any are given, and none of `without`.

    Raises:
        ValueError: Nothing has such a name.
    """
    names = all_faults(kind)
    for words in (*only, *without):
        if not any(words.lower() in name.lower() for name in names):
            raise ValueError(f"no fault with {words!r} in its name; there are: {', '.join(names)}")

    def has(name: str, parts: Sequence[str]) -> bool:
        return any(words.lower() in name.lower() for words in parts)

    return frozenset(name for name in names if (not only or has(name, only)) and not has(name, without))


@contextmanager
def users_of(kind: TargetKind, folder: Path, wanted: frozenset[str]) -> Iterator[list[User]]:
    """Those who have something to do."""
    if kind == "redis":
        yield []
        return
    users: list[User] = [Runner(0, folder / "runs", wanted)] if wanted & runner.FAULTS.keys() else []
    with own_disk(folder / "other-disk") as disk:
        for worker in WORKERS:
            if not wanted.intersection(worker.faults):
                continue
            user = worker(0, folder / worker.__name__.lower(), wanted)
            if isinstance(user, Detacher) and disk is not None:
                user.use(disk)
            users.append(user)
        yield users


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--target", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--uploaders", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="faults with TEXT in their name")
    parser.add_argument("--without", action="append", default=[], metavar="TEXT", help="all but those faults")
    parser.add_argument("--list", action="store_true", help="print the names of the faults, and exit")
    parser.add_argument("--logs", action="store_true", help="print the servers' logs although nothing was violated")
    options = parser.parse_args()
    try:
        wanted = chosen(options.target, options.only, options.without)
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        print(*sorted(wanted), sep="\n")
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="toolfold-faults-") as folder,
        running_target(options.target, Path(folder), options.seed, wanted) as target,
        users_of(options.target, Path(folder), wanted) as users,
    ):
        if target is None:
            print("NOT RUN: no redis-server is available here")
            return 0
        everyone = Everyone(
            [Client(number, target.bases) for number in range(options.clients)],
            [Uploader(number, target.bases) for number in range(options.uploaders)],
            users,
        )
        report = asyncio.run(check(target, everyone, options.minutes * 60, seed=options.seed))
        if report.violations or options.logs:
            for server in target.servers:
                print(f"--- {server.base}", server.log[-20_000:], sep="\n")
        if report.violations:
            kept = tempfile.mkdtemp(prefix="toolfold-violated-")
            print(f"--- what was on disk is kept in {kept}")
            shutil.copytree(folder, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("files"))
    print(f"{options.target}, {options.minutes:g} minutes, seed {options.seed}", *report.lines(), sep="\n")
    return bool(report.violations)


if __name__ == "__main__":
    sys.exit(main())
