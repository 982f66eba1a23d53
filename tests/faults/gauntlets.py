"""Short scenarios with a kill at the worst moment: whoever violates a promise is found, without chance."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from tests.faults.audit import records_of
from tests.faults.clients import Client, Uploader
from tests.faults.judge import Disturbance, Violation, violations
from tests.faults.programs import Kind, script
from tests.faults.runner import Runner
from tests.faults.servers import TOOLS, Server, done_in
from tests.ledger.redis_server import RedisServer
from tests.ports import reserved_port

_KEYED: Final[tuple[Kind, ...]] = (
    "effect", "ask", "gather", "ask", "clock", "random", "ask", "effect", "cancel", "effect"
)  # fmt: skip
_PATIENCE_SECONDS: Final = 10.0
_HOST: Final = (Disturbance("host", 0.0, float("inf")),)
"""Every host was killed at some time."""


async def _until_there(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.005)


class _Kill:
    """Kills the server once, when each of its clients has had so many answers or has left."""

    def __init__(self, server: Server, clients: int, at: int) -> None:
        self._server = server
        self._at = at
        self._missing = set(range(clients))
        self._answers: Counter[int] = Counter()
        self._over = asyncio.Event()
        self.arrived = asyncio.Event()
        """The first of them waits."""

    async def __call__(self, client: int) -> None:
        """It has been answered."""
        self._answers[client] += 1
        if self._answers[client] == self._at:
            await self.arrive(client)

    async def arrive(self, client: int) -> None:
        """It waits, or has nothing to wait for any more."""
        self._missing.discard(client)
        self.arrived.set()
        if self._missing:
            await self._over.wait()
        elif not self._over.is_set():
            await self._server.kill_and_start()
            self._over.set()


async def sqlite_gauntlet(folder: Path, bug: str = "") -> list[Violation]:
    """One server on a file: killed at a pause, and in the middle of a call; every request is sent twice."""
    (folder / "tools.py").write_text(TOOLS, "utf-8")
    ledger = str(folder / "ledger.sqlite")
    server = Server(folder / "s0", reserved_port(), ledger=ledger, files=folder / "files", bug=bug)
    kill = _Kill(server, clients=2, at=3)
    clients = [
        Client(at, lambda: [server.base], again=1, between=partial(kill, at), patience_seconds=_PATIENCE_SECONDS)
        for at in range(2)
    ]
    uploader = Uploader(1, lambda: [server.base])
    everyone = (*clients, uploader)
    try:
        await server.ready()
        # One that shows a tool all that it has seen, and one whose calls look the same whatever it has seen.
        await asyncio.gather(*(_operate(client, kill, at) for at, client in enumerate(clients)))
        violated = await _verdict(folder, ledger, *clients)
        if violated:
            return violated
        await uploader.work(most=1)
        await uploader.look()
        (folder / "die-c-2").touch()
        restart = asyncio.ensure_future(_start_again(server))
        await clients[0].operate("c", ("effect", "effect", "ask", "effect"), "unknown")
        await restart
        await asyncio.gather(*(client.send_last_again() for client in clients))
        return await _verdict(folder, ledger, *everyone)
    finally:
        for client in everyone:
            await client.talk.close()
        server.kill()


async def _operate(client: Client, kill: _Kill, at: int) -> None:
    if at == 0:
        await kill.arrived.wait()  # or the other's commit would carry along what this one has not committed
    await client.operate("ab"[at], _KEYED, ("whole", "unknown")[at])
    await kill.arrive(at)


async def _start_again(server: Server) -> None:
    await asyncio.to_thread(server.process.wait)
    await server.ready()


async def _verdict(folder: Path, ledger: str, *everyone: Client) -> list[Violation]:
    return violations(
        [operation for one in everyone for operation in one.operations],
        done_in(folder),
        [session for one in everyone for session in one.sessions],
        broken=[request for one in everyone for request in one.talk.broken],
        faults=_HOST,
        records=await records_of(ledger),
    )


async def redis_gauntlet(folder: Path, redis: RedisServer, bug: str = "") -> list[Violation]:
    """Two replicas: one is frozen in the middle of a program, which the other continues, and wakes up again."""
    (folder / "tools.py").write_text(TOOLS, "utf-8")
    ports = [reserved_port() for _ in range(2)]
    servers = [
        Server(
            folder / f"s{at}", port, ledger=redis.url, files=folder / "files", bug=bug,
            advertise=f"http://127.0.0.1:{port}",
        )
        for at, port in enumerate(ports)
    ]  # fmt: skip
    first, second = servers
    client = Client(1, lambda: [second.base], again=0, patience_seconds=_PATIENCE_SECONDS)
    waiting = httpx.AsyncClient(base_url=first.base, headers={"X-API-Key": "key-of-one"}, timeout=_PATIENCE_SECONDS)
    beginning: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def wake() -> None:
        """The frozen replica goes on with what the other has taken over, until it has answered."""
        first.process.send_signal(signal.SIGCONT)
        await asyncio.wait([beginning])

    client.between = wake
    kinds: tuple[Kind, ...] = ("effect", "clock", "gate", "effect", "ask", "effect")
    try:
        await asyncio.gather(*(server.ready() for server in servers))
        request, headers = client.start_of(script("a", kinds, "unknown"), "a")
        beginning = asyncio.ensure_future(waiting.post("/exec/programmatic", json=request, headers=headers))
        await _until_there(folder / "at-a-3")
        first.process.send_signal(signal.SIGSTOP)
        (folder / "at-a-3").unlink()
        ending = asyncio.ensure_future(client.operate("a", kinds, "unknown"))
        await _until_there(folder / "at-a-3")
        (folder / "open-a-3").touch()
        operation = await ending
        return violations([operation], done_in(folder), faults=_HOST, records=await records_of(redis.url))
    finally:
        beginning.cancel()
        await waiting.aclose()
        await client.talk.close()
        for server in servers:
            server.kill()


async def rerun_gauntlet(folder: Path, bug: str = "") -> list[Violation]:
    """`toolfold run`, killed by one of its tools, and its rerun."""
    runner = Runner(0, folder / "runs", bug=bug)
    (folder / "runs" / "die-a-3").touch()
    operation = await runner.operate("a", most_kills=0)
    records = await records_of(runner.ledger_of(operation))
    return violations([operation], runner.done, faults=_HOST, records=records)
