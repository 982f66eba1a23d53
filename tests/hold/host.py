"""A real `toolfold serve`, watched from outside: its memory, its descriptors, its answer to SIGTERM."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

KEYS = {"honest": "key-of-honest", "hostile": "key-of-hostile"}
CONFIG = """
http:
  port: 0
  files: files
  preload_data: false
  keys: {keys}
{http}
tools: {{modules: [tools.py]{tools}}}
ledger: {{where: ledger.sqlite}}
{more}
servers: {servers}
"""
TOOLS = '''
import os

from toolfold import tool

@tool(read_only=True)
def weigh(values: list[int] | list[str]) -> int:
    """Takes one of two types."""
    return len(values)

@tool(read_only=True)
def fail(reason: str = "down") -> int:
    """Fails where it is told to."""
    if reason:
        raise ConnectionError(reason)
    return 1

@tool(read_only=True)
def connect() -> int:
    """Fails with its password."""
    raise ConnectionError(f"postgres://app:{os.environ['DATABASE_PASSWORD']}@db is down")
'''
DESCRIPTORS = 1024
MOST_BYTES_OF_A_CONTROL = 1_200_000_000
ROOT = Path(__file__).parents[2]
PASSWORD = "swordfish-and-chips"


class Host:
    """One server; ends with the block.

    Args:
        folder: Where it keeps what it keeps.
        http: Lines of that part of its config.
        is_open: Without keys.
        servers: To bridge.
        config: Further lines of its config.
        tools: Further keys of `tools` in its config.
        files: Beside its config, by name.
        without: The attack whose mend is switched off; such a server is ended before it takes the machine's memory.
        counts_guests: As part of its memory.
        options: Of the command line.
    """

    def __init__(
        self,
        folder: Path,
        http: str = "",
        *,
        is_open: bool = False,
        servers: Sequence[Any] = (),
        config: str = "",
        tools: str = "",
        files: Mapping[str, str] = MappingProxyType({}),
        without: str = "",
        counts_guests: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self._silent = socket.create_server(("127.0.0.1", 0))  # takes connections, and never says a word
        self._counts_guests = counts_guests
        self._most_bytes = MOST_BYTES_OF_A_CONTROL if without else None
        http = http.replace("SILENT_PORT", str(self._silent.getsockname()[1]))
        for name, text in {"tools.py": TOOLS, **files}.items():
            (folder / name).write_text(text, "utf-8")
        keys = "{}" if is_open else f"{{honest: {KEYS['honest']}, hostile: {KEYS['hostile']}}}"
        lines = "\n".join(f"  {line}" for line in http.splitlines())
        (folder / "toolfold.yaml").write_text(
            CONFIG.format(
                http=lines, keys=keys, servers=json.dumps(servers), more=config, tools=tools and f", {tools}"
            ),
            "utf-8",
        )
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "DATABASE_PASSWORD": PASSWORD}
        module = ["tests.hold.switched_off", without] if without else ["toolfold"]
        command = [sys.executable, "-m", *module, "serve", *options, "--config", str(folder / "toolfold.yaml")]
        self.log = folder / "log"
        with self.log.open("w") as log:
            # With as many descriptors as most systems give.
            limited = ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$0" "$@"', *command]
            self.process = subprocess.Popen(limited, stderr=log, env=environment, cwd=ROOT)
        try:
            self.url = self._wait_until_ready()
        except BaseException:
            self.process.kill()
            self.process.wait()
            self._silent.close()
            raise
        self.idle_bytes = self.memory_bytes
        self.idle_descriptors = self.descriptors
        self.peak_bytes = self.idle_bytes
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watching.join()
        self._silent.close()
        self.process.kill()
        self.process.wait()

    @property
    def grown_bytes(self) -> int:
        """The most above its idle size."""
        return self.peak_bytes - self.idle_bytes

    @property
    def memory_bytes(self) -> int:
        """Of the server itself; guests have limits of their own, and are counted where those are attacked."""
        pids = [self.process.pid, *(self._below(self.process.pid) if self._counts_guests else ())]
        found = [re.search(r"VmRSS:\s+(\d+) kB", _proc(pid, "status")) for pid in pids]
        return sum(int(one[1]) * 1024 for one in found if one)

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def processes(self) -> int:
        """Below the server: zygotes, guests, workers."""
        return len(self._below(self.process.pid))

    def seconds_to_end(self, most: float) -> float:
        """From SIGTERM until nobody is accepted any more; running programs may take longer."""
        address = re.fullmatch(r"http://(.+):(\d+)", self.url)
        assert address
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        while (seconds := time.monotonic() - began) < most:
            if self.process.poll() is not None:
                return seconds
            with socket.socket() as one:
                one.settimeout(0.2)
                if one.connect_ex((address[1], int(address[2]))) == 111:
                    return time.monotonic() - began
            time.sleep(0.02)
        return seconds

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            self.peak_bytes = max(self.peak_bytes, self.memory_bytes)
            if self._most_bytes is not None and self.grown_bytes > self._most_bytes:
                self.process.kill()

    def _below(self, pid: int) -> list[int]:
        tasks = Path(f"/proc/{pid}/task")
        # Each thread has its own: whoever started a process, it is the server's.
        try:
            threads = os.listdir(tasks)
        except OSError:  # it has ended
            return []
        children = [int(child) for thread in threads for child in _proc(pid, f"task/{thread}/children").split()]
        return [*children, *(one for child in children for one in self._below(child))]

    def _wait_until_ready(self) -> str:
        for _ in range(2400):
            found = re.search(r"listening on (\S+)", self.log.read_text())
            if self.process.poll() is not None:
                break
            if found:
                try:
                    with urllib.request.urlopen(f"{found[1]}/ready", timeout=5) as answer:
                        if answer.status == 200:
                            return found[1]
                except (urllib.error.URLError, OSError):
                    pass
            time.sleep(0.05)
        raise RuntimeError(self.log.read_text())


def _proc(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""
