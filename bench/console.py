"""What a console costs and how live it is: lists of 100,000 executions, and the time from a reply to its event."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from tests.doors.console.served import Console, served
from toolfold import Runtime, tool
from toolfold.ledger.record import Begun, Filter, Ledger
from toolfold.ledger.redis import RedisLedger
from toolfold.ledger.sqlite import SqliteLedger
from toolfold.models import CallRecord, ContextSaved, Limits, Outcome, Program, Status

FILTERS = {
    "none": Filter(),
    "state": Filter(state="running"),
    "status": Filter(status="failed"),
    "door": Filter(door="mcp"),
    "tool": Filter(tool="tool7"),
    "rare tool": Filter(tool="rare"),
    "tenant": Filter(tenant="t3"),
    "session": Filter(session="s9"),
    "time": Filter(since=1_050_000.0, until=1_060_000.0),
    "text": Filter(text="needle"),
}


def p95(figures: list[float]) -> float:
    return sorted(figures)[int(len(figures) * 0.95)]


async def filled(ledger: Ledger, count: int) -> None:
    luck = random.Random(1)
    limits = Limits()
    for at in range(count):
        name = f"{at:016x}"
        text = f"print(await tool{at % 40}({at}))" + ("  # needle" if at % 20_011 == 7 else "")
        ledger.begin(
            Begun(
                execution_id=name, program=Program(text=text), tools=(), limits=limits, began_at=1_000_000.0 + at,
                door=luck.choice(["cli", "mcp", "http"]), tenant=f"t{at % 50}", session=f"s{at % 200}",
            )
        )  # fmt: skip
        tools = [f"tool{at % 40}", *(["rare"] if at % 10_007 == 3 else [])]
        calls = tuple(CallRecord(id=1, name=one, arguments={}, seconds=0.1, bytes_out=50) for one in tools)
        if at < count - 50:
            status: Status = "failed" if at % 37 == 0 else "finished"
            await ledger.finish(
                name,
                Outcome(
                    execution_id=name, status=status, calls=calls, seconds=0.2, context_saved=ContextSaved(bytes=9)
                ),
            )
        if at % 2000 == 1999:
            await ledger.find("0", limit=1)


async def listed(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger(Path(folder) / "ledger.sqlite")
        began = time.perf_counter()
        await filled(ledger, count)
        print(f"{count:,} executions written in {time.perf_counter() - began:.0f} s")
        async with served(Runtime([], ledger=ledger), ledger) as console:
            for name, wanted in FILTERS.items():
                query = {
                    key: getattr(wanted, key) for key in wanted.__dataclass_fields__ if getattr(wanted, key) is not None
                }
                figures, rows = [], 0
                for _ in range(20):
                    began = time.perf_counter()
                    rows = len((await console.get("executions", **query))["executions"])
                    figures.append((time.perf_counter() - began) * 1000)
                print(
                    f"  {name:10} {rows:4} rows, p50 {statistics.median(figures):6.1f} ms, p95 {p95(figures):6.1f} ms"
                )
        await ledger.close()


async def live(ledger: Ledger, name: str, programs: int) -> None:
    """From the moment in which a tool has its reply to the event in a client's hands."""
    given: dict[tuple[int, int], float] = {}
    seen: list[float] = []

    @tool
    async def step(program: int, number: int) -> int:
        """A step."""
        await asyncio.sleep(0.1)
        given[program, number] = time.perf_counter()
        return number

    text = "await asyncio.sleep(1.5)\nfor number in range(20):\n    await step(program={at}, number=number)\n"
    async with served(Runtime([step], ledger=ledger), ledger) as console:

        async def one(at: int) -> None:
            # The program begins with a pause, so that somebody looks by the time of its first reply.
            run = await started(console, ledger, text.format(at=at))
            await watched(console, run, at, given, seen)

        await asyncio.gather(*(one(at) for at in range(programs)))
    figures = [one * 1000 for one in seen]
    print(f"  {name}: {len(figures)} replies, p50 {statistics.median(figures):.0f} ms, p95 {p95(figures):.0f} ms")


async def started(console: Console, ledger: Ledger, text: str) -> str:
    name = f"{time.time_ns():016x}"[-16:]
    ledger.begin(Begun(execution_id=name, program=Program(text=""), tools=(), limits=Limits(), began_at=time.time()))
    await ledger.finish(name, Outcome(execution_id=name, status="finished"), wait=True)
    answer = await console.post(f"executions/{name}/rerun", {"text": text})
    found: str = answer.json()["execution_id"]
    return found


async def watched(console: Console, run: str, at: int, given: dict[tuple[int, int], float], seen: list[float]) -> None:
    async with console.client.stream("GET", f"/api/executions/{run}/events") as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                now = time.perf_counter()
                replied = [event["id"] - 1 for event in json.loads(line[6:])["events"] if event["type"] == "replied"]
                seen.extend(now - given[at, number] for number in replied)


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--executions", type=int, default=100_000)
    options.add_argument("--programs", type=int, default=20)
    options.add_argument("--redis", default="")
    asked = options.parse_args()
    print(f"from a reply to its event, {asked.programs} programs at once")
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger(Path(folder) / "ledger.sqlite")
        await live(ledger, "sqlite", asked.programs)
        await ledger.close()
    if asked.redis:
        shared = RedisLedger(asked.redis)
        await live(shared, "redis", asked.programs)
        await shared.close()
    if asked.executions:
        await listed(asked.executions)


if __name__ == "__main__":
    asyncio.run(main())
