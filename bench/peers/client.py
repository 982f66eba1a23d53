"""The bench's end of a worker: starts it, asks it, and starts another when it does not answer."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

from bench.peers.environments import ROOT, NotInstalled, environment, python_of
from bench.peers.roster import PEERS

START_SECONDS, ANSWER_SECONDS = 120.0, 60.0
PROGRAM_SECONDS = 20.0
LINE_BYTES = 1 << 26


class Worker:
    """One peer. `error` is set, and stays, where it cannot be installed or started."""

    def __init__(self, peer: str, tools: str, say: Callable[[str], None]) -> None:
        self.peer, self.error = peer, ""
        self._tools, self._say = tools, say
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        try:
            self._python = await asyncio.to_thread(python_of, PEERS[self.peer].environment or self.peer, self._say)
        except NotInstalled as reason:
            self.error = f"not installed: {reason}"
        else:
            await self._start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stop()

    async def ask(self, **request: Any) -> dict[str, Any]:
        """Its answer, or `{"error": ...}`."""
        if self._process is None and not self.error:
            await self._start()
        if self.error:
            return {"error": self.error}
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        return await self._answer(PROGRAM_SECONDS if request["do"] == "run" else ANSWER_SECONDS)

    async def _start(self) -> None:
        self._say(f"starting {self.peer}")
        self._process = await asyncio.create_subprocess_exec(
            str(self._python), "-m", "bench.peers.worker", self.peer, self._tools, stdin=-1, stdout=-1,
            stderr=asyncio.subprocess.DEVNULL, cwd=ROOT, env=environment(self.peer), limit=LINE_BYTES,
            start_new_session=True,
        )  # fmt: skip
        self.error = (await self._answer(START_SECONDS)).get("error", "")

    async def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError:
            await self._stop()
            return {"error": f"no answer in {seconds:.0f} s"}
        if not line:
            code = await self._process.wait()
            await self._stop()
            return {"error": f"its process ended with status {code}"}
        return json.loads(line)

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        # A peer's own processes may outlive it, and one that is in a loop takes all memory.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@asynccontextmanager
async def workers(peers: Iterable[str], tools: str, say: Callable[[str], None]) -> AsyncIterator[dict[str, Worker]]:
    """A worker for each peer, all open at once."""
    async with AsyncExitStack() as stack:
        yield {peer: await stack.enter_async_context(Worker(peer, tools, say)) for peer in peers}


def versions(peer: str) -> dict[str, str]:
    """What is pinned for a peer, by package."""
    pinned = Path(__file__).parent / "requirements" / f"{PEERS[peer].environment or peer}.txt"
    if not pinned.exists():
        return {}
    lines = [line.split(" ;")[0].partition("==") for line in pinned.read_text().splitlines() if "==" in line]
    found = {name.lower().replace("_", "-"): version for name, _, version in lines}
    return {name: found[name.lower().replace("_", "-")] for name in PEERS[peer].packages}
