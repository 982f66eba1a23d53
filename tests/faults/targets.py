"""What is under test: server processes that are killed, frozen and started again at random."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.doors.http.fleet import quiet_port
from tests.escapes_support.seen import descendants
from tests.ledger.redis_server import RedisServer, running_server

TOOLS = '''
import os, pathlib
from toolfold import tool

DONE = os.open(pathlib.Path(__file__).parent / "done.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@tool
def effect(name: str) -> str:
    """Something that must not be done twice."""
    os.write(DONE, (name + "\\n").encode())
    return "did-" + name
'''
CONFIG = """
http: {{keys: {{one: key-of-one}}, port: {port}, files: ../files, lease: 2s, waiting: 500, preload_data: false,
  running: 16, starts_per_minute: 100000, paused: 10000}}
tools: {{modules: [../tools.py]}}
ledger: {{where: "{ledger}"}}
"""


class Server:
    """One `toolfold serve` on a port that stays its own."""

    def __init__(self, folder: Path, ledger: str) -> None:
        folder.mkdir()
        self._folder = folder
        self.base = f"http://127.0.0.1:{(port := quiet_port())}"
        (folder / "toolfold.yaml").write_text(CONFIG.format(port=port, ledger=ledger), "utf-8")
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "toolfold", "serve", "--config", str(self._folder / "toolfold.yaml")]
        environment = {**os.environ, "XDG_STATE_HOME": str(self._folder / "state")}
        with (self._folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log, env=environment)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    async def ready(self) -> None:
        async with httpx.AsyncClient() as client, asyncio.timeout(60):
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get(f"{self.base}/ready")).status_code == 200:
                        return
                await asyncio.sleep(0.05)


class Target:
    """Servers, their ledger, and what can be done to them."""

    def __init__(self, folder: Path, redis: RedisServer | None, seed: int) -> None:
        (folder / "tools.py").write_text(TOOLS, "utf-8")
        self._done = folder / "done.txt"
        self._chance = random.Random(seed)
        self._redis = redis
        where = ["ledger.sqlite"] if redis is None else [redis.url] * 3
        self.servers = [Server(folder / f"s{number}", ledger) for number, ledger in enumerate(where)]
        self.faults: Counter[str] = Counter()

    @property
    def done(self) -> list[str]:
        """What the tools did, in order."""
        return self._done.read_text("utf-8").split() if self._done.exists() else []

    def bases(self) -> list[str]:
        return [server.base for server in self.servers]

    async def disturb(self) -> None:
        """One fault, and its end."""
        choices: list[Callable[[], object]] = [self._kill_server, self._kill_guest, self._kill_zygote]
        if self._redis is not None:
            choices += [self._freeze_server, self._freeze_redis, self._kill_redis]
        fault = self._chance.choice(choices)
        self.faults[fault.__name__.strip("_").replace("_", " ")] += 1
        done = fault()
        if asyncio.iscoroutine(done):
            await done

    async def _kill_server(self) -> None:
        server = self._chance.choice(self.servers)
        server.kill()
        server.start()
        await server.ready()

    def _kill_guest(self) -> None:
        self._kill_one(is_parent=False)

    def _kill_zygote(self) -> None:
        self._kill_one(is_parent=True)

    def _kill_one(self, *, is_parent: bool) -> None:
        below = descendants(self._chance.choice(self.servers).process.pid)
        found = [process for process in below if bool(descendants(process)) == is_parent]
        if found:
            with suppress(ProcessLookupError):
                os.kill(self._chance.choice(found), signal.SIGKILL)

    async def _freeze_server(self) -> None:
        server = self._chance.choice(self.servers)
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self._chance.uniform(0.5, 4))  # some of them longer than a lease
        server.process.send_signal(signal.SIGCONT)

    async def _freeze_redis(self) -> None:
        assert self._redis is not None
        self._redis.freeze()
        await asyncio.sleep(self._chance.uniform(0.2, 2))
        self._redis.thaw()

    def _kill_redis(self) -> None:
        assert self._redis is not None
        self._redis.restart()


@contextmanager
def running_target(kind: str, folder: Path, seed: int) -> Iterator[Target | None]:
    """`sqlite`: one server on a file. `redis`: three replicas and their server, which writes before it answers."""
    if kind == "sqlite":
        yield from _running(Target(folder, None, seed))
        return
    with running_server() as redis:
        if redis is None:
            yield None
        else:
            yield from _running(Target(folder, redis, seed))


def _running(target: Target) -> Iterator[Target]:
    try:
        yield target
    finally:
        for server in target.servers:
            server.kill()
