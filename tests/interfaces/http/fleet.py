"""Several `toolfold serve` processes over one Redis, and what is to be known of them from outside."""

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from redis import Redis

from tests.ledger.redis_server import RedisServer

CONFIG = """
http: {{keys: {{one: key-of-one, two: key-of-two}}, port: {port}, files: {files}, lease: {lease}, waiting: 500,
  preload_data: false, running: 8, max_timeout: {longest}, host: {host}, advertise: {advertise}}}
tools: {{modules: [../tools.py]}}
ledger: {{where: "{url}"}}
"""
TOOLS = '''
import pathlib, time
from toolfold import tool

HERE = pathlib.Path(__file__).parent

@tool
def charge(name: str) -> int:
    """Not to be done twice."""
    with (HERE / "charged.txt").open("a") as file:
        file.write(name + "\\n")
    return 1

@tool(read_only=True)
def look(name: str) -> int:
    """The same, and may be done twice."""
    return hang(name)

@tool
def hang(name: str) -> int:
    """Until the test lets it go."""
    (HERE / f"{name}.hangs").touch()
    while not (HERE / f"{name}.go").exists():
        time.sleep(0.02)
    return 1
'''


class Replica:
    """One server process with a state folder of its own."""

    def __init__(self, folder: Path, url: str, **said: Any) -> None:
        folder.mkdir()
        usual = {
            "port": 0,
            "files": "../files",
            "lease": "2s",
            "longest": "300s",
            "host": "127.0.0.1",
            "advertise": "null",
        }
        (folder / "toolfold.yaml").write_text(CONFIG.format(**{**usual, "url": url, **said}), "utf-8")
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        command = [sys.executable, "-m", "toolfold", "serve", "--config", str(folder / "toolfold.yaml")]
        self._advertised = said.get("advertise", "")
        self._log = folder / "log"
        self._folder = folder
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stderr=log, env=environment)
        # Any: a client once it listens, which everyone waits for.
        self.client: Any = None

    async def listen(self) -> None:
        """Wait until it is ready; a client of this event loop."""
        await until(lambda: "listening on" in self.log or self.process.poll() is not None)
        match = re.search(r"listening on (\S+)", self.log)
        assert match, self.log
        limits = httpx.Limits(max_connections=60)
        headers = {"X-API-Key": "key-of-one"}
        url = match[1].replace("0.0.0.0", "127.0.0.1")
        self.address = self._advertised or ("" if url != match[1] else url)
        if self.client is None or self.client.is_closed:
            self.client = httpx.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits)

        async def is_ready() -> bool:
            return (await self.client.get("/ready")).status_code == 200

        await until(is_ready)

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def children(self) -> set[tuple[int, str]]:
        """Every process below it, by id and time of its start: ids are used again."""
        facts = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    words = Path("/proc", name, "stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue  # it ended meanwhile
                if words[0] not in "ZX":
                    facts[int(name)] = (int(words[1]), words[19])
        found = set()
        for process, (_, began) in facts.items():
            above = process
            while above in facts and above != self.process.pid:
                above = facts[above][0]
            if above == self.process.pid and process != above:
                found.add((process, began))
        return found


class Fleet:
    """Replicas and the Redis they share."""

    def __init__(self, folder: Path, redis: RedisServer, database: int) -> None:
        self.folder = folder
        self.redis = redis
        self._url = f"{redis.url.rpartition('/')[0]}/{database}"
        self.replicas: list[Replica] = []
        (folder / "tools.py").write_text(TOOLS, "utf-8")

    def add(self, count: int, **said: Any) -> list[Replica]:
        new = [Replica(self.folder / f"r{len(self.replicas) + at}", self._url, **said) for at in range(count)]
        self.replicas += new
        return new

    async def start(self, count: int = 2, **said: Any) -> list[Replica]:
        new = self.add(count, **said)
        await self.ready()
        return new

    async def ready(self) -> None:
        """All of them listen to a client of this event loop, and each knows the others."""
        alive = [replica for replica in self.replicas if replica.process.poll() is None]
        await asyncio.gather(*(replica.listen() for replica in alive))
        await until(lambda: {replica.address for replica in alive} <= self._known())

    def _known(self) -> set[str]:
        with Redis.from_url(self._url) as client:
            return {owner.decode().partition(" ")[2] for owner in client.zrange("{toolfold}:replicas", 0, -1)}

    def fact(self, token: str, name: str) -> str:
        """What the ledger says of a token's execution."""
        with Redis.from_url(self._url) as client:
            return (client.hget(f"{{toolfold}}:x:{execution_of(token)}", name) or b"").decode()

    def owner(self, token: str) -> str:
        with Redis.from_url(self._url) as client:
            return (client.get(f"{{toolfold}}:l:{execution_of(token)}") or b"").decode()

    def forgotten_in_seconds(self, token: str) -> float:
        """When the server forgets an execution by itself."""
        with Redis.from_url(self._url) as client:
            return client.pttl(f"{{toolfold}}:x:{execution_of(token)}") / 1000

    @property
    def has_records(self) -> bool:
        """Whether the ledger knows of an execution."""
        with Redis.from_url(self._url) as client:
            return bool(client.keys("{toolfold}:x:*"))

    @property
    def charged(self) -> list[str]:
        path = self.folder / "charged.txt"
        return path.read_text("utf-8").split() if path.exists() else []

    def exists(self, name: str) -> bool:
        return (self.folder / name).exists()

    def let_go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()


@contextmanager
def running_fleet(folder: Path, redis: RedisServer, database: int = 0) -> Iterator[Fleet]:
    fleet = Fleet(folder, redis, database)
    try:
        yield fleet
    finally:
        for replica in fleet.replicas:
            replica.send(signal.SIGCONT)
            replica.process.kill()
            replica.process.wait()


def execution_of(token: str) -> str:
    payload = token.partition(".")[0]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))[0]


def is_there(process: tuple[int, str]) -> bool:
    try:
        words = Path(f"/proc/{process[0]}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return False
    return words[19] == process[1] and words[0] not in "ZX"


async def until(is_so: Callable[[], bool | Awaitable[bool]], seconds: float = 60.0) -> None:
    """Wait for a condition, however long the machine takes."""
    async with asyncio.timeout(seconds):
        while True:
            found: Any = is_so()
            if found is True or (not isinstance(found, bool) and await found):
                return
            await asyncio.sleep(0.02)
