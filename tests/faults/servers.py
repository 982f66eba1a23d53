"""A server process under test, its tools, and what can be done to it from outside."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import httpx

from tests.escapes_support.seen import descendants
from tests.faults.judge import Done
from tests.faults.launcher import COMMAND, WallClock, environment

TOOLS = '''
import asyncio, json, os, pathlib, secrets, signal
from typing import Any
from toolfold import tool

HERE = pathlib.Path(__file__).parent
DONE = os.open(HERE / "done.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@tool
def effect(name: str, seen: list[Any]) -> str:
    """Something that must not be done twice."""
    reply = f"did-{name}-{secrets.token_hex(4)}"
    os.write(DONE, (json.dumps({"name": name, "reply": reply, "seen": seen}) + "\\n").encode())
    if (HERE / f"die-{name}").exists():
        (HERE / f"die-{name}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return reply

@tool(read_only=True)
async def gate(name: str) -> str:
    """Open as soon as a file is there."""
    (HERE / f"at-{name}").write_text(str(os.getpid()))
    while not (HERE / f"open-{name}").exists():
        await asyncio.sleep(0.01)
    return "open"
'''
CONFIG = """
http: {{keys: {{one: key-of-one}}, port: {port}, files: "{files}", lease: 2s, waiting: 500, preload_data: false,
  running: 16, starts_per_minute: 100000, paused: 10000, max_timeout: 3600s, advertise: {advertise}}}
execution: {{languages: [python, bash]}}
tools: {{modules: [../tools.py]}}
ledger: {{where: "{ledger}"}}
"""
_STOP_SECONDS = 45.0


def done_in(folder: Path) -> list[Done]:
    """What the tools of a folder did, in order."""
    path = folder / "done.txt"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [Done(**json.loads(line)) for line in lines]


class Server:
    """One `toolfold serve` on a port that stays its own."""

    def __init__(
        self, folder: Path, port: int, *, ledger: str, files: Path, advertise: str = "null", bug: str = ""
    ) -> None:  # fmt: skip
        folder.mkdir()
        self._folder = folder
        self._bug = bug
        self.base = f"http://127.0.0.1:{port}"
        self.clock = WallClock(folder / "clock")
        config = CONFIG.format(port=port, ledger=ledger, files=files, advertise=advertise)
        (folder / "toolfold.yaml").write_text(config, "utf-8")
        self.start()

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text("utf-8")

    def start(self) -> None:
        command = [*COMMAND, "serve", "--config", str(self._folder / "toolfold.yaml")]
        variables = environment(self.clock.path, self._bug, XDG_STATE_HOME=str(self._folder / "state"))
        with (self._folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log, env=variables)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    async def ready(self) -> None:
        """Started as often as it takes: one that cannot reach its ledger ends at once."""
        async with httpx.AsyncClient(timeout=5) as client, asyncio.timeout(90):
            while True:
                if self.process.poll() is not None:
                    self.start()
                with suppress(httpx.TransportError):
                    if (await client.get(f"{self.base}/ready")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    async def kill_and_start(self) -> None:
        self.kill()
        self.start()
        await self.ready()

    async def stop_and_start(self, chance: random.Random, number: int = signal.SIGTERM) -> None:
        """An orderly exit, for some of them asked for twice: programs that take longer must go on after it."""
        self.process.send_signal(number)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.uniform(0, 1.5))
            self.process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.process.wait, _STOP_SECONDS)
        await self.kill_and_start()

    async def freeze(self, seconds: float) -> None:
        self.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    async def leave_no_descriptors(self, seconds: float) -> None:
        """It can open nothing for a while."""
        pid = self.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
        await asyncio.sleep(seconds)
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    async def kill_below(self, chance: random.Random, *, is_parent: bool) -> None:
        """Its zygote, which has processes below it, or one of its guests."""
        below = {process: descendants(process) for process in descendants(self.process.pid)}
        # Who starts a zygote, the zygote, its guests; what is below those is their own.
        depths = {process: sum(process in others for others in below.values()) for process in below}
        found = [process for process, depth in depths.items() if (depth < 2 if is_parent else depth == 2)]
        if found:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(found), signal.SIGKILL)
