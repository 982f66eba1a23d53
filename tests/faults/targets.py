"""What is under test: servers, their ledger and the links between them, and faults of every kind at random."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from redis.exceptions import RedisError

from tests.faults.disk import Disk, own_disk
from tests.faults.links import KINDS, Kind, Links
from tests.faults.servers import TOOLS, Server
from tests.ledger.redis_server import RedisServer, running_server
from tests.ports import reserved_port

TargetKind: TypeAlias = Literal["sqlite", "redis"]
_REPLICAS: Final = 3
_PARTITION_SECONDS: Final = (0.3, 2.0, 6.0, 13.0)
"""Shorter and longer than a lease, and longer than a replica waits for an answer of Redis."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that can be done to a target, from its beginning to its end."""

    where: str
    """Two faults in one place do not go on at once."""
    name: str
    make: Callable[[], Coroutine[Any, Any, object]]


class Target:
    """Servers, their ledger, and what can be done to them."""

    def __init__(self, folder: Path, redis: RedisServer | None, disk: Disk | None, seed: int) -> None:
        (folder / "tools.py").write_text(TOOLS, "utf-8")
        self._done = folder / "done.txt"
        self._chance = random.Random(seed)
        self._redis = redis
        self._disk = disk
        self.faults: Counter[str] = Counter()
        ports = [reserved_port() for _ in range(1 if redis is None else _REPLICAS)]
        inner = [] if redis is None else [redis.port] * _REPLICAS + ports
        self._links = Links([*ports, *inner])
        kinds = ("client–server", "replica–redis", "replica–replica")
        self._names = [name for name in kinds for _ in ports][: len(self._links.ports)]
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
    def done(self) -> list[str]:
        """What the tools did, in order."""
        return self._done.read_text("utf-8").split() if self._done.exists() else []

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
        if fault is None or fault.where in self._going:
            return
        self.faults[fault.name] += 1
        self._going[fault.where] = task = asyncio.create_task(fault.make())
        task.add_done_callback(lambda _: self._over(fault.where))

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

    def _server_fault(self) -> Fault:
        at = self._chance.randrange(len(self.servers))
        server, chance = self.servers[at], self._chance
        # Some freezes are longer than a lease.
        faults: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "kill -9 of a server": server.kill_and_start,
            "kill -9 of a guest": lambda: server.kill_below(chance, is_parent=False),
            "kill -9 of a zygote": lambda: server.kill_below(chance, is_parent=True),
            "SIGTERM of a server": lambda: server.stop_and_start(chance),
            "no descriptors": lambda: server.leave_no_descriptors(chance.uniform(0.2, 2)),
        }
        if self._redis is not None:
            faults["freeze of a server"] = lambda: server.freeze(chance.uniform(0.5, 4))
        name = chance.choice([*faults])
        return Fault(f"server {at}", name, faults[name])

    def _disk_fault(self) -> Fault | None:
        assert self._disk is not None
        return Fault("disk", "full disk", self._fill_disk)

    async def _fill_disk(self) -> None:
        assert self._disk is not None
        while not self._disk.fill():
            await asyncio.sleep(0)
        await asyncio.sleep(self._chance.uniform(0.2, 2))
        self._disk.clear()

    def _redis_fault(self) -> Fault:
        name = self._chance.choice(["freeze of Redis", "kill -9 of Redis", "kill -9 of Redis that rewrites its file"])
        return Fault("redis", name, self._freeze_redis if "freeze" in name else lambda: self._kill_redis(name))

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
        return Fault(f"link {link}", f"{self._names[link]}: {kind}", lambda: self._cut(link, kind))

    async def _cut(self, link: int, kind: Kind) -> None:
        self._links.set(link, kind)
        await asyncio.sleep(self._chance.uniform(0.2, self._chance.choice(_PARTITION_SECONDS)))
        self._links.set(link, "whole", is_dead=self._chance.random() < 0.4)


@contextmanager
def running_target(kind: TargetKind, folder: Path, seed: int) -> Iterator[Target | None]:
    """`sqlite`: one server on a file. `redis`: three replicas and their server, which writes before it answers."""
    with own_disk(folder / "disk") as disk:
        if kind == "sqlite":
            yield from _running(folder, None, disk, seed)
            return
        with running_server() as redis:
            if redis is None:
                yield None
            else:
                yield from _running(folder, redis, disk, seed)


def _running(folder: Path, redis: RedisServer | None, disk: Disk | None, seed: int) -> Iterator[Target]:
    target = Target(folder, redis, disk, seed)
    try:
        yield target
    finally:
        target.close()
