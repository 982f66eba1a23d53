"""What is under test: servers, their ledger and the links between them, and faults of every kind at random."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from redis.exceptions import RedisError

from tests.faults.audit import records_of
from tests.faults.disk import Disk, own_disk
from tests.faults.judge import Cause, Disturbance, Done, Recorded
from tests.faults.links import KINDS, Kind, Links
from tests.faults.servers import TOOLS, Server, done_in
from tests.ledger.redis_server import RedisServer, running_server
from tests.ports import reserved_port

TargetKind: TypeAlias = Literal["sqlite", "redis"]
_REPLICAS: Final = 3
_LEASE_SECONDS: Final = 3.0
"""So long after a fault a program may still move to another replica."""
_PARTITION_SECONDS: Final = (0.3, 2.0, 6.0, 13.0)
"""Shorter and longer than a lease, and longer than a replica waits for an answer of Redis."""


_JUMPS_SECONDS: Final = {"sqlite": (-1200.0, -61.0, 61.0, 1200.0), "redis": (-3600.0, -1200.0, 61.0, 3600.0)}
"""On a file deadlines are the machine's, so that all jumps together stay below a program's timeout."""
_SERVER_FAULTS: Final[dict[str, Cause]] = {
    "kill -9 of a server": "host",
    "kill -9 of a guest": "guest",
    "kill -9 of a zygote": "guest",
    "SIGTERM of a server": "host",
    "SIGINT of a server": "host",
    "no descriptors": "host",
    "clock jump of a server": "other",
}
_REDIS_FAULTS: Final = ("freeze of Redis", "kill -9 of Redis", "kill -9 of Redis that rewrites its file")
_LINKS: Final = ("client-server", "replica-redis", "replica-replica")


def fault_names(kind: TargetKind) -> list[str]:
    """Everything that can be done to a target."""
    names = [*_SERVER_FAULTS, "full disk", *(f"{_LINKS[0]}: {cut}" for cut in KINDS)]
    if kind == "redis":
        names += ["freeze of a server", *_REDIS_FAULTS, *(f"{link}: {cut}" for link in _LINKS[1:] for cut in KINDS)]
    return names


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that can be done to a target, from its beginning to its end."""

    where: str
    """Two faults in one place do not go on at once."""
    name: str
    cause: Cause
    make: Callable[[], Coroutine[Any, Any, object]]


class Target:
    """Servers, their ledger, and what can be done to them."""

    def __init__(
        self, folder: Path, redis: RedisServer | None, disk: Disk | None, seed: int, wanted: frozenset[str] | None
    ) -> None:  # fmt: skip
        (folder / "tools.py").write_text(TOOLS, "utf-8")
        self._folder = folder
        self._wanted = frozenset(fault_names("sqlite" if redis is None else "redis")) if wanted is None else wanted
        self._chance = random.Random(seed)
        self._redis = redis
        self._disk = disk
        self.counts: Counter[str] = Counter()
        self.disturbances: list[Disturbance] = []
        ports = [reserved_port() for _ in range(1 if redis is None else _REPLICAS)]
        inner = [] if redis is None else [redis.port] * _REPLICAS + ports
        self._links = Links([*ports, *inner])
        self._names = [name for name in _LINKS for _ in ports][: len(self._links.ports)]
        """What each link connects."""
        self._going: dict[str, asyncio.Task[object]] = {}
        """Faults by place."""
        self._wrong: list[BaseException] = []
        self.servers = [self._server(folder, at, port) for at, port in enumerate(ports)]

    def _server(self, folder: Path, at: int, port: int) -> Server:
        disk, place = folder / "disk", folder / f"s{at}"
        if self._redis is None:
            return Server(place, port, ledger=str(disk / "ledger.sqlite"), files=disk / "files")
        redis, peers = self._links.ports[_REPLICAS + at], self._links.ports[2 * _REPLICAS + at]
        ledger, advertise = f"redis://127.0.0.1:{redis}/0", f"http://127.0.0.1:{peers}"
        return Server(place, port, ledger=ledger, files=disk / "files", advertise=advertise)

    @property
    def done(self) -> list[Done]:
        """What the tools did, in order."""
        return done_in(self._folder)

    async def records(self) -> list[Recorded]:
        """What the ledger has."""
        return await records_of(
            str(self._folder / "disk" / "ledger.sqlite") if self._redis is None else self._redis.url
        )

    def bases(self) -> list[str]:
        """Where clients reach the servers: over links that may be cut."""
        return [f"http://127.0.0.1:{port}" for port in self._links.ports[: len(self.servers)]]

    def close(self) -> None:
        for server in self.servers:
            server.kill()
        self._links.close()

    async def disturb(self) -> None:
        """Begin one fault; others may follow before it is over."""
        if len(self._going) >= len(self.servers):
            return  # some must be left to work
        faults: list[Callable[[], Fault | None]] = [*[self._server_fault] * 5, *[self._link_fault] * 2]
        if self._disk is not None:
            faults.append(self._disk_fault)
        if self._redis is not None:
            faults += [self._redis_fault] * 2 + [self._link_fault] * 4
        fault = self._chance.choice(faults)()
        if fault is None or fault.where in self._going or fault.name not in self._wanted:
            return
        self.counts[fault.name] += 1
        self._going[fault.where] = task = asyncio.create_task(self._timed(fault))
        task.add_done_callback(lambda _: self._over(fault.where))

    async def _timed(self, fault: Fault) -> None:
        """So that the judge knows what it excuses, and when."""
        began = time.monotonic()
        try:
            await fault.make()
        finally:
            ended = time.monotonic() + (_LEASE_SECONDS if self._redis is not None else 0.0)
            self.disturbances.append(Disturbance(fault.cause, began, ended))

    async def calm(self) -> None:
        """Every fault is over, and everything whole again."""
        while self._going:
            await asyncio.wait(self._going.values())
        await asyncio.gather(*(server.ready() for server in self.servers))
        if self._wrong:
            raise self._wrong[0]

    def _over(self, where: str) -> None:
        error = self._going.pop(where).exception()
        if error is not None:
            self._wrong.append(error)

    def _server_fault(self) -> Fault | None:
        at = self._chance.randrange(len(self.servers))
        server, chance = self.servers[at], self._chance
        # Some freezes are longer than a lease.
        faults: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "kill -9 of a server": server.kill_and_start,
            "kill -9 of a guest": lambda: server.kill_below(chance, is_parent=False),
            "kill -9 of a zygote": lambda: server.kill_below(chance, is_parent=True),
            "SIGTERM of a server": lambda: server.stop_and_start(chance),
            "SIGINT of a server": lambda: server.stop_and_start(chance, signal.SIGINT),
            "no descriptors": lambda: server.leave_no_descriptors(chance.uniform(0.2, 2)),
            "clock jump of a server": lambda: self._jump(server),
        }
        if self._redis is not None:
            faults["freeze of a server"] = lambda: server.freeze(chance.uniform(0.5, 4))
        names = [name for name in faults if name in self._wanted]
        if not names:
            return None
        name = chance.choice(names)
        return Fault(f"server {at}", name, _SERVER_FAULTS.get(name, "host"), faults[name])

    async def _jump(self, server: Server) -> None:
        """Its wall clock, and the one of whoever starts in its place, is another from now on."""
        server.clock.set(self._chance.choice(_JUMPS_SECONDS["sqlite" if self._redis is None else "redis"]))

    def _disk_fault(self) -> Fault | None:
        assert self._disk is not None
        return Fault("disk", "full disk", "host", self._fill_disk)

    async def _fill_disk(self) -> None:
        assert self._disk is not None
        while not self._disk.fill():
            await asyncio.sleep(0)
        await asyncio.sleep(self._chance.uniform(0.2, 2))
        self._disk.clear()

    def _redis_fault(self) -> Fault:
        name = self._chance.choice(_REDIS_FAULTS)
        return Fault("redis", name, "host", self._freeze_redis if "freeze" in name else lambda: self._kill_redis(name))

    async def _freeze_redis(self) -> None:
        assert self._redis is not None
        self._redis.freeze()
        await asyncio.sleep(self._chance.uniform(0.2, 4))
        self._redis.thaw()

    async def _kill_redis(self, name: str) -> None:
        assert self._redis is not None
        if "rewrites" in name:
            with self._redis.client() as client, suppress(RedisError):
                client.bgrewriteaof()
        self._redis.kill()
        await asyncio.sleep(self._chance.choice([0, 0, 1, 4]))
        await asyncio.to_thread(self._redis.start)  # from its file

    def _link_fault(self) -> Fault:
        link, kind = self._chance.randrange(len(self._names)), self._chance.choice(KINDS)
        cause: Cause = "other" if self._names[link] == _LINKS[0] else "host"
        return Fault(f"link {link}", f"{self._names[link]}: {kind}", cause, lambda: self._cut(link, kind))

    async def _cut(self, link: int, kind: Kind) -> None:
        self._links.set(link, kind)
        await asyncio.sleep(self._chance.uniform(0.2, self._chance.choice(_PARTITION_SECONDS)))
        self._links.set(link, "whole", is_dead=self._chance.random() < 0.4)


@contextmanager
def running_target(
    kind: TargetKind, folder: Path, seed: int, wanted: frozenset[str] | None = None
) -> Iterator[Target | None]:
    """`sqlite`: one server on a file. `redis`: three replicas and their server, which writes before it answers."""
    with own_disk(folder / "disk") as disk:
        if kind == "sqlite":
            yield from _running(folder, None, disk, seed, wanted)
            return
        with running_server() as redis:
            if redis is None:
                yield None
            else:
                yield from _running(folder, redis, disk, seed, wanted)


def _running(
    folder: Path, redis: RedisServer | None, disk: Disk | None, seed: int, wanted: frozenset[str] | None
) -> Iterator[Target]:
    target = Target(folder, redis, disk, seed, wanted)
    try:
        yield target
    finally:
        target.close()
