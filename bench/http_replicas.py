"""What a continuation costs at replicas over Redis, beside one server over SQLite; part of `bench.http`.

Three executions go on in turns, one round each: over SQLite, over Redis at the replica that holds it, and
over Redis at the other one. So the figures are of one run, and their ratios hold on a busy machine, too.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from tests.ledger.redis_server import RedisServer, running_server

ROUNDS = 300
LANES = ("SQLite", "Redis, at the holder", "Redis, forwarded")
SYNCS = ("always", "everysec")

Serve = Callable[[Path, str], AbstractContextManager[tuple[int, int]]]


def medians(served: Serve, client: Callable[[int], Any], code: str) -> dict[str, dict[str, float]] | None:
    """Milliseconds of one continuation in each lane, by how often Redis syncs; `None` where there is no Redis."""
    with ExitStack() as stack:
        redis = stack.enter_context(running_server())
        if redis is None:
            return None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = []
        for name, ledger in (("sqlite", "ledger.sqlite"), ("a", redis.url), ("b", redis.url)):
            (folder / name).mkdir()
            ports.append(stack.enter_context(served(folder / name, ledger))[0])
        return {sync: asyncio.run(_lanes(redis, sync, ports, client, code)) for sync in SYNCS}


async def _lanes(
    redis: RedisServer, sync: str, ports: list[int], client: Callable[[int], Any], code: str
) -> dict[str, float]:
    with redis.client() as server:
        server.config_set("appendfsync", sync)
    sqlite, holder, other = ports
    seconds: dict[str, list[float]] = {lane: [] for lane in LANES}
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(port)) for port in (sqlite, holder, other)]
        # The last one is held where the second is.
        bodies = [await clients[at].start(code) for at in (0, 1, 1)]
        for _ in range(ROUNDS):
            for at, lane in enumerate(LANES):
                began = time.perf_counter()
                bodies[at] = await clients[at].go_on(bodies[at])
                seconds[lane].append(time.perf_counter() - began)
    assert [body["status"] for body in bodies] == ["completed"] * 3, bodies
    return {lane: statistics.median(values) * 1000 for lane, values in seconds.items()}
