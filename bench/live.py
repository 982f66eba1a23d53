"""What it costs the host that somebody reads along: `python -m bench.live`.

A program prints a megabyte a second. Nobody reads it; then a reader that keeps up, a slow one, and one that leaves, in
the library and over HTTP, and the progress of an MCP client. Each case runs in a process of its own, and its resident
memory is compared with what it was before the program began. Exit 1: one grew by more than the target.
"""

import asyncio
import contextlib
import multiprocessing
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from mcp import Client

from tests.interfaces.http.conftest import serve
from toolfold import Runtime
from toolfold.interfaces.http import Settings
from toolfold.interfaces.mcp.offered_tools import Offer
from toolfold.interfaces.mcp.server import McpServer
from toolfold.runtime import RuntimeSettings

MEGABYTES = 12
MOST_GROWTH_MB = 48.0
"""Three times what a program may print on both streams: the text itself, its record, and what is on its way."""
PROGRAM = f"""
import time
line = "x" * 1023 + "\\n"
for n in range({MEGABYTES}):
    began = time.monotonic()
    print(line * 1024, end="")
    await asyncio.sleep(max(0, 1 - (time.monotonic() - began)))
"""


async def nobody(_: Path) -> int:
    """Nobody reads."""
    async with Runtime() as runtime:
        return await growth(lambda: runtime.run(PROGRAM))


async def library(_: Path, pause_seconds: float = 0.0, parts: int | None = None) -> int:
    """The iterator of the library, with a pause after each part; after so many parts the reader leaves."""
    async with Runtime() as runtime:

        async def read() -> None:
            execution = await runtime.start(PROGRAM, background=True)
            seen = 0
            async for _part in execution.output():
                seen += 1
                if seen == parts:
                    break
                await asyncio.sleep(pause_seconds)
            await execution.wait()

        return await growth(read)


async def http(folder: Path, pause_seconds: float = 0.0, parts: int | None = None) -> int:
    """Server-sent events over a real port."""
    async with serve(Settings(timeout_seconds=60), folder) as client:

        async def read() -> None:
            started = await client.post("/exec", json={"code": PROGRAM}, headers={"Prefer": "respond-async"})
            url, seen = started.headers["location"], 0
            async with client.stream("GET", f"{url}/output") as stream:
                async for line in stream.aiter_lines():
                    seen += line.startswith("data: ")
                    if seen == parts:
                        break
                    if line.startswith("data: "):
                        await asyncio.sleep(pause_seconds)
            while (await client.get(url, params={"wait": 60})).status_code == 202:
                pass

        return await growth(read)


async def mcp(_: Path, pause_seconds: float = 0.0) -> int:
    """The progress messages of an MCP client."""
    runtime = Runtime(settings=RuntimeSettings(entry_name="execute_program"))

    # The names are those of the protocol that the SDK declares.
    async def slow(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        await asyncio.sleep(pause_seconds)

    async with McpServer(runtime, Offer(runtime)) as mcp_server, Client(mcp_server.server) as client:
        return await growth(lambda: client.call_tool("execute_program", {"code": PROGRAM}, progress_callback=slow))


CASES: dict[str, Callable[[Path], Awaitable[int]]] = {
    "nobody reads": nobody,
    "library": library,
    "library, slow": lambda folder: library(folder, 0.2),
    "library, leaves": lambda folder: library(folder, parts=3),
    "HTTP": http,
    "HTTP, slow": lambda folder: http(folder, 0.2),
    "HTTP, leaves": lambda folder: http(folder, parts=3),
    "MCP progress": mcp,
    "MCP progress, slow": lambda folder: mcp(folder, 0.2),
}


async def growth(work: Callable[[], Awaitable[object]]) -> int:
    """The most that resident memory grew by while this ran, in bytes."""
    before = most = resident()

    async def look() -> None:
        nonlocal most
        while True:
            most = max(most, resident())
            await asyncio.sleep(0.05)

    looking = asyncio.create_task(look())
    try:
        await work()
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    return most - before


def resident() -> int:
    """Of this process, in bytes; guests are processes of their own."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(name: str, said: "multiprocessing.Queue[tuple[str, float]]") -> None:
    """One case, in a process of its own."""
    with TemporaryDirectory() as folder:
        said.put((name, asyncio.run(_measured(CASES[name], Path(folder))) / 1e6))


async def _measured(case: Callable[[Path], Awaitable[int]], folder: Path) -> int:
    return await case(folder)


def main() -> int:
    """All cases at once: each waits for most of its time."""
    context = multiprocessing.get_context("spawn")
    said: multiprocessing.Queue[tuple[str, float]] = context.Queue()
    processes = [context.Process(target=measure, args=(name, said)) for name in CASES]
    for process in processes:
        process.start()
    grown = dict(said.get(timeout=240) for _ in processes)
    for process in processes:
        process.join()
    print(f"{MEGABYTES} MB printed in {MEGABYTES} s, 8 MiB of it kept; growth of the host's resident memory")
    for name in CASES:
        verdict = "met" if grown[name] <= MOST_GROWTH_MB else "MISSED"
        print(f"  {name:<22}{grown[name]:6.1f} MB  (at most {MOST_GROWTH_MB:g}: {verdict})")
    return 1 if any(value > MOST_GROWTH_MB for value in grown.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
