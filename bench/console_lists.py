"""How quickly a console lists 100,000 executions, for each filter; on SQLite and on Redis."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.interfaces.console.served import served
from tests.ledger.redis_server import running_server
from toolfold import Runtime
from toolfold.ledger.base import CallEntry, ExecutionFilter, Ledger, ReplyEntry, Retention, StartRecord
from toolfold.ledger.ledger_factory import reindex_ledger
from toolfold.ledger.redis.store import RedisLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Call, CallRecord, ContextSaved, Limits, Outcome, Program, Reply, Status

SAMPLES = 60
AT_MOST_MS = 50
FILTERS = {
    "nothing": ExecutionFilter(),
    "state": ExecutionFilter(state="running"),
    "status": ExecutionFilter(status="failed"),
    "interface": ExecutionFilter(interface="mcp"),
    "tool": ExecutionFilter(tool="tool7"),
    "rare tool": ExecutionFilter(tool="rare"),
    "tenant": ExecutionFilter(tenant="t3"),
    "session": ExecutionFilter(session="s9"),
    "time": ExecutionFilter(since=1_050_000.0, until=1_060_000.0),
    "text": ExecutionFilter(text="needle"),
    "common text": ExecutionFilter(text="print"),
    "text and status": ExecutionFilter(text="needle", status="failed"),
    "status and tool": ExecutionFilter(status="failed", tool="tool7"),
}
_KEPT = Retention(executions=10_000_000, age_seconds=float("inf"))


async def measured(count: int) -> list[tuple[str, str, int, float, float]]:
    """Ledger, filter, rows, median and 95th percentile in milliseconds."""
    found = []
    for name in ("sqlite", "redis"):
        async with _ledger(name) as ledger:
            if ledger is None:
                print("NOT RUN: redis, there is no redis-server", file=sys.stderr)
                continue
            began = time.perf_counter()
            await filled(ledger, count)
            print(f"{name}: {count:,} executions written in {time.perf_counter() - began:.0f} s", file=sys.stderr)
            found += [(name, *row) for row in await _listed(ledger)]
    return found


@asynccontextmanager
async def _ledger(name: str) -> AsyncIterator[Ledger | None]:
    if name == "redis":
        with running_server() as server:
            if server is None:
                yield None
                return
            with server.client() as client:
                client.config_set("appendonly", "no")  # what is measured is reading
            shared = RedisLedger(server.url, keep=_KEPT)
            yield shared
            await shared.close()
        return
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger(Path(folder) / "ledger.sqlite", keep=_KEPT)
        yield ledger
        await ledger.close()


async def filled(ledger: Ledger, count: int) -> None:
    """Executions of forty tools, three interfaces, fifty tenants; the last fifty still run."""
    luck = random.Random(1)
    limits = Limits()
    for at in range(count):
        name = f"{at:016x}"
        text = f"print(await tool{at % 40}({at}))" + ("  # needle" if at % 20_011 == 7 else "")
        ledger.begin(
            StartRecord(
                execution_id=name, program=Program(text=text), tools=(), limits=limits, began_at=1_000_000.0 + at,
                interface=luck.choice(["cli", "mcp", "http"]), tenant=f"t{at % 50}", session=f"s{at % 200}",
            )
        )  # fmt: skip
        tools = [f"tool{at % 40}", *(["rare"] if at % 10_007 == 3 else [])]
        calls = tuple(CallRecord(id=1, name=one, arguments={}, seconds=0.1, bytes_out=50) for one in tools)
        if at < count - 50:
            status: Status = "failed" if at % 37 == 0 else "finished"
            saved = ContextSaved(bytes=9)
            await ledger.finish(
                name, Outcome(execution_id=name, status=status, calls=calls, seconds=0.2, context_saved=saved)
            )
        if at % 2000 == 1999:
            await ledger.find("0", limit=1)  # until they are written


async def _listed(ledger: Ledger) -> list[tuple[str, int, float, float]]:
    found = []
    async with served(Runtime([], ledger=ledger), ledger) as console:
        await console.get("overview")
        for name, wanted in FILTERS.items():
            fields = {field: getattr(wanted, field) for field in wanted.__dataclass_fields__}
            query = {field: value for field, value in fields.items() if value is not None}
            figures, rows = [], 0
            for _ in range(SAMPLES):
                began = time.perf_counter()
                rows = len((await console.get("executions", **query))["executions"])
                figures.append((time.perf_counter() - began) * 1000)
                await asyncio.sleep(0)
            found.append((name, rows, statistics.median(figures), p95(figures)))
    return found


SEARCHES = [
    "needle", "print", "customer", "4711", '"order 4711"', "tool:tool7 shipped", "status:failed customer",
    "tenant:t3 customer", "tenant:t3 tool:tool7 status:failed customer", "ship", "since:1d customer", "nothingofthat",
    "lima oslo", "ledger:x OR y",
]  # fmt: skip
SEARCH_AT_MOST_MS = 100
LARGEST = 1.6
_CALLS = 10
_CITIES = ["lima", "oslo", "quito", "cairo", "perth", "osaka", "turin", "accra", "sofia", "hanoi"]


async def searched(count: int) -> tuple[list[tuple[str, int, float, float]], float, float]:
    """Search, rows, median and 95th percentile in milliseconds; size with the index; seconds to index all of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        ledger = SqliteLedger(path, keep=_KEPT)
        began = time.perf_counter()
        await filled_with_calls(ledger, count)
        await ledger.close()
        print(f"{count:,} executions written in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        began = time.perf_counter()
        await asyncio.to_thread(reindex_ledger, str(path), None, lambda _: None)
        seconds = time.perf_counter() - began
        size = path.stat().st_size
        ratio = (size + path.with_name(f"{path.name}-words").stat().st_size) / size
        ledger = SqliteLedger(path, keep=_KEPT)
        found = []
        async with served(Runtime([], ledger=ledger), ledger) as console:
            await console.get("overview")
            for text in SEARCHES:
                figures, rows = [], 0
                for _ in range(SAMPLES):
                    began = time.perf_counter()
                    rows = len((await console.get("executions", q=text))["executions"])
                    figures.append((time.perf_counter() - began) * 1000)
                found.append((text, rows, statistics.median(figures), p95(figures)))
        await ledger.close()
        return found, ratio, seconds


async def filled_with_calls(ledger: SqliteLedger, count: int) -> None:
    """Executions that read ten orders each, as a shop's tools answer: ids, words, amounts."""
    luck = random.Random(1)
    limits = Limits()
    for at in range(count):
        name, tool = f"{at:016x}", f"tool{at % 40}"
        text = f"orders = [await {tool}(number=n) for n in range({at}, {at + _CALLS})]\nprint(len(orders))"
        ledger.begin(
            StartRecord(
                execution_id=name, program=Program(text=text + ("  # needle" if at % 20_011 == 7 else "")), tools=(),
                limits=limits, began_at=1_000_000.0 + at, interface="mcp", tenant=f"t{at % 50}", session=f"s{at % 200}",
            )
        )  # fmt: skip
        records = []
        for number in range(_CALLS):
            arguments = {"number": luck.randrange(10**6)}
            value = {
                "id": f"order {arguments['number']}", "customer": f"customer {luck.randrange(50_000)}",
                "city": luck.choice(_CITIES), "state": luck.choice(["shipped", "open", "returned"]),
                "amount": luck.randrange(100_000) / 100,
            }  # fmt: skip
            record = CallRecord(
                id=number + 1,
                name=tool,
                arguments=arguments,
                line=1,
                started_seconds=number / 10,
                seconds=0.1,
                bytes_in=20,
                bytes_out=120,
            )
            ledger.note(name, CallEntry(Call(id=number + 1, tool=tool, arguments=arguments, line=1)))
            ledger.note(name, ReplyEntry(Reply(call_id=number + 1, value=value), record))
            records.append(record)
        status: Status = "failed" if at % 37 == 0 else "finished"
        ended = Outcome(
            execution_id=name,
            status=status,
            stdout="10\n",
            calls=tuple(records),
            seconds=1.0,
            context_saved=ContextSaved(bytes=900),
        )
        await ledger.finish(name, ended)
        if at % 1000 == 999:
            await ledger.find("0", limit=1)  # until they are written


def p95(figures: list[float]) -> float:
    """The figure that 95 of 100 do not pass."""
    return sorted(figures)[int(len(figures) * 0.95)]
