"""A real head that is away for longer than Ray's patience, and comes back: part of `python -m tests.ray`.

In a process of its own, with a cluster of its own: before, Ray ended that process. A line says what was seen; the exit
status is 1 if anything is not as it must be, or if Ray ended the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.ports import held_port
from toolfold import EngineCrashed, EngineUnavailable, Runtime

PATIENCE_SECONDS = 5
NOTICED_SECONDS = 90.0
NO_NODE = "no node of the Ray cluster can be used, for 1 s; see 'ray status'"
_RAY = str(Path(sys.executable).with_name("ray"))


class Head:
    """Of one node, which is itself."""

    def __init__(self, folder: str, port: int) -> None:
        self._folder = folder
        self.address = f"127.0.0.1:{port}"
        self._port = port

    def start(self) -> None:
        command = [
            _RAY, "start", "--head", "--port", str(self._port), "--num-cpus", "1", "--include-dashboard", "false",
            "--disable-usage-stats", "--temp-dir", self._folder,
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, name: str = "") -> None:
        """Its processes, or those of that name alone."""
        for path in Path("/proc").iterdir():
            try:
                line = (path / "cmdline").read_bytes().decode(errors="replace") if path.name.isdigit() else ""
                if self._folder in line and name in line:
                    os.kill(int(path.name), signal.SIGKILL)
            except OSError:
                continue


async def play(head: Head) -> list[str]:
    """What is wrong."""
    is_called = asyncio.Event()

    async def wait() -> None:
        is_called.set()
        await asyncio.Event().wait()

    async with Runtime([wait], engine="ray", engine_options={"address": head.address, "wait_seconds": 1}) as runtime:
        running = asyncio.create_task(runtime.run("await wait()"))
        await is_called.wait()
        began = time.monotonic()
        await asyncio.to_thread(head.kill, "gcs_server")
        in_flight = await _refusal(running)
        after = await _refusal(asyncio.create_task(runtime.run("1 + 1")))
        print(f"head away: after {time.monotonic() - began:.1f} s: {in_flight!r}, then {after!r}", flush=True)
        await asyncio.to_thread(head.kill)
        await asyncio.to_thread(head.start)
        began = time.monotonic()
        while (said := await _refusal(asyncio.create_task(runtime.run("1 + 1")))) == NO_NODE:
            if time.monotonic() - began > NOTICED_SECONDS:
                break
        print(f"head back: after {time.monotonic() - began:.1f} s: {said}", flush=True)
    wanted = [("in flight", in_flight, NO_NODE), ("after it", after, NO_NODE), ("back again", said, "2")]
    return [f"{what}: {seen!r}" for what, seen, right in wanted if seen != right]


# Any outcome: only its value is looked at.
async def _refusal(running: asyncio.Task[object]) -> str:
    try:
        return str(getattr(await running, "value", None))
    except (EngineCrashed, EngineUnavailable) as error:
        return str(error)


def main() -> int:
    """Play it, in this process."""
    # As Ray spells it.
    os.environ["RAY_gcs_rpc_server_reconnect_timeout_s"] = str(PATIENCE_SECONDS)  # noqa: SIM112
    # A short path: Ray's sockets are below it.
    with (
        tempfile.TemporaryDirectory(prefix="head-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        held_port() as port,
    ):
        head = Head(folder, port)
        head.start()
        try:
            wrong = asyncio.run(play(head))
        finally:
            head.kill()
    for line in wrong:
        print(f"WRONG: {line}")
    print("lost head: " + ("FAILED" if wrong else "an error of the programs on it, and a reconnect"))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
