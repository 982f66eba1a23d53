"""What the bridge costs: the same calls from a program, and from the SDK's own client without one.

    python -m bench.bridge [--rounds N] [--calls N]

Both talk to a process of one example server made with the SDK, in turns, so that a noisy moment
hits both. A figure is the median over rounds of the time for one call.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from rich.console import Console
from rich.table import Table

from bench import record
from toolfold import Limits, Runtime
from toolfold.models import MIB
from toolfold.sources.mcp import Bridge, Server

SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
@server.tool(structured_output=False)
def text(size: int) -> str:
    return "x" * size
server.run("stdio")
"""
ONE_BY_ONE = """
for n in range({calls}):
    assert await mcp__bench__add(a=n, b=1) == n + 1
"""
GATHERED = """
import asyncio
sums = await asyncio.gather(*(mcp__bench__add(a=n, b=1) for n in range({calls})))
assert sums == [n + 1 for n in range({calls})]
"""
LARGE_BYTES = 40_000_000
LARGE = "assert len(await mcp__bench__text(size={calls})) == {calls}"
TARGETS = {"one by one": 1.5, "gathered": 1.2}
LARGE_SECONDS = 2.0


async def measure(rounds: int, calls: int) -> tuple[dict[str, tuple[float, float]], float]:
    """Seconds for one call, by case: direct and bridged; and seconds until a program has a large text."""
    with tempfile.TemporaryDirectory() as folder:
        script = anyio.Path(folder) / "server.py"
        await script.write_text(SERVER)
        server = Server(name="bench", command=sys.executable, args=[str(script)])
        async with (
            Client(StdioServerParameters(command=sys.executable, args=[str(script)])) as client,
            Bridge([server], eras=Path(folder) / "eras.json") as bridge,
        ):
            await client.list_tools()
            await bridge.settled(timeout_seconds=30)
            async with Runtime(bridge.tools(), limits=Limits(reply_bytes=64 * MIB)) as runtime:
                found = {
                    "one by one": await _compare(
                        lambda: _one_by_one(client, calls), lambda: _run(runtime, ONE_BY_ONE, calls), rounds, calls
                    ),
                    "gathered": await _compare(
                        lambda: _gathered(client, calls), lambda: _run(runtime, GATHERED, calls), rounds, calls
                    ),
                }
                return found, await _large(runtime)


async def _large(runtime: Runtime) -> float:
    samples = []
    for _ in range(3):
        began = time.perf_counter()
        await _run(runtime, LARGE, LARGE_BYTES)
        samples.append(time.perf_counter() - began)
    return statistics.median(samples)


async def _compare(
    direct: Callable[[], Awaitable[None]], bridged: Callable[[], Awaitable[None]], rounds: int, calls: int
) -> tuple[float, float]:
    samples: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for one, kept in zip((direct, bridged), samples, strict=True):
            began = time.perf_counter()
            await one()
            if number:  # the first round warms up
                kept.append((time.perf_counter() - began) / calls)
    return statistics.median(samples[0]), statistics.median(samples[1])


async def _one_by_one(client: Client, calls: int) -> None:
    for n in range(calls):
        result = await client.call_tool("add", {"a": n, "b": 1})
        assert result.structured_content == {"result": n + 1}


async def _gathered(client: Client, calls: int) -> None:
    await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 1}) for n in range(calls)))


async def _run(runtime: Runtime, text: str, calls: int) -> None:
    outcome = await runtime.run(text.format(calls=calls))
    assert outcome.status == "finished", outcome


def main() -> int:
    """Exit status 0 if all targets are reached."""
    parser = argparse.ArgumentParser(prog="python -m bench.bridge")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=100)
    options = parser.parse_args()
    found, large_seconds = asyncio.run(measure(options.rounds, options.calls))
    _write(found, options.calls, large_seconds)
    table = Table("calls", "SDK client", "from a program", "ratio", "target", "", title="the bridge, per call")
    is_good = large_seconds <= LARGE_SECONDS
    for name, (direct, bridged) in found.items():
        ratio = bridged / direct
        is_good &= ratio <= TARGETS[name]
        verdict = "ok" if ratio <= TARGETS[name] else "TOO SLOW"
        table.add_row(
            f"{options.calls} {name}", f"{direct * 1e6:.0f} µs", f"{bridged * 1e6:.0f} µs", f"{ratio:.2f}",
            f"≤ {TARGETS[name]}", verdict,
        )  # fmt: skip
    console = Console()
    console.print(table)
    console.print(
        f"a text of {LARGE_BYTES:,} bytes is with the program after {large_seconds:.2f} s (≤ {LARGE_SECONDS:g} s)"
    )
    return 0 if is_good else 1


def _write(found: dict[str, tuple[float, float]], calls: int, large_seconds: float) -> None:
    record.write(
        record.FOLDER / "bridge.json",
        title="The MCP bridge",
        command="make bench NAME=bridge",
        cases={
            name: record.case(
                f"{calls} calls {name}, each", "µs", {"SDK client": direct * 1e6, "toolfold": bridged * 1e6}
            )
            for name, (direct, bridged) in found.items()
        }
        | {"large": record.case("a text of 40 MB", "s", {"toolfold": large_seconds})},
        targets=[
            record.target(
                name, bridged / direct, TARGETS[name], "×", than="SDK client",
                is_reached=bridged / direct <= TARGETS[name],
            )
            for name, (direct, bridged) in found.items()
        ]
        + [record.target("large", large_seconds, LARGE_SECONDS, "s", is_reached=large_seconds <= LARGE_SECONDS)],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
