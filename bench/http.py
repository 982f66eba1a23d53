"""What the HTTP interface costs: `python -m bench.http`.

A `toolfold serve` of its own on loopback, with SQLite, and a client that writes HTTP by hand, so that the
figures are the server's. One execution with many rounds, one after another; 50 clients with 20 rounds
each; 200 executions paused at once, with the memory of their guests; another tenant's programs beside
200 endless loops; a continuation at replicas over Redis, as a ratio to SQLite. The exit status is 1 if a
target is missed.
"""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import http_replicas, record

ROUNDS = 400
CONFIG = (
    "http: {keys: {one: one-key, two: two-key}, port: 0, files: files, max_rounds: 1000, "
    "starts_per_minute: 100000, waiting: 1000}\nledger: {where: '%s'}\n"
)
TOOL = {"name": "ask", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}


class Client:
    """One connection that is kept."""

    def __init__(self, port: int, key: str = "one-key") -> None:
        self._port, self._key = port, key

    async def __aenter__(self) -> "Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def post(self, body: dict[str, Any]) -> dict[str, Any]:
        raw = json.dumps(body).encode()
        head = (
            "POST /exec/programmatic HTTP/1.1\r\nHost: localhost\r\n"
            f"X-API-Key: {self._key}\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        )
        self._writer.write(head.encode() + raw)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        match = re.search(r"content-length: (\d+)", answer)
        assert match is not None
        return json.loads(await self._reader.readexactly(int(match[1])))

    async def start(self, code: str, seconds: int = 60) -> dict[str, Any]:
        return await self.post({"code": code, "tools": [TOOL], "timeout": seconds * 1000})

    async def go_on(self, body: dict[str, Any]) -> dict[str, Any]:
        results = [{"call_id": call["id"], "result": 1} for call in body["tool_calls"]]
        return await self.post({"continuation_token": body["continuation_token"], "tool_results": results})


def loop(rounds: int) -> str:
    return f"for n in range({rounds}):\n    await ask(n=n)\nprint('done')"


async def round_trip(port: int, rounds: int = ROUNDS) -> float:
    """Milliseconds for one continuation, the median of one program."""
    seconds = []
    async with Client(port) as client:
        body = await client.start(loop(rounds))
        while body["status"] == "tool_call_required":
            began = time.perf_counter()
            body = await client.go_on(body)
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds) * 1000


async def one_client(port: int) -> str:
    async with Client(port) as client:
        body = await client.start(loop(20))
        while body["status"] == "tool_call_required":
            body = await client.go_on(body)
    return body["status"]


async def many_clients(port: int) -> tuple[float, int]:
    began = time.perf_counter()
    ends = await asyncio.gather(*(one_client(port) for _ in range(50)))
    return time.perf_counter() - began, sum(end != "completed" for end in ends)


async def paused_memory(port: int, server: int) -> float:
    # The zygotes and the guests that wait are there with and without executions.
    before = sum(pss(process) for process in descendants(server))
    async with Client(port) as client:
        for _ in range(200):
            assert (await client.start(loop(1), 20))["status"] == "tool_call_required"
        return (sum(pss(process) for process in descendants(server)) - before) / 200 / 1024


async def beside_a_flood(port: int) -> float:
    async def probe() -> float:
        seconds = []
        async with Client(port, "two-key") as client:
            for _ in range(30):
                began = time.perf_counter()
                await client.start("print(1)")
                seconds.append(time.perf_counter() - began)
        return statistics.median(seconds)

    async def endless() -> None:
        async with Client(port) as client:
            await client.start("while True: pass", 5)

    alone = await probe()
    flood = [asyncio.create_task(endless()) for _ in range(200)]
    await asyncio.sleep(1)
    beside = await probe()
    await asyncio.gather(*flood)
    return beside / alone


def descendants(root: int) -> Iterator[int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(Path("/proc", name, "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue  # it ended meanwhile
    for process in parents:
        above = process
        while above in parents and above != root:
            above = parents[above]
        if above == root and process != root:
            yield process


def pss(process: int) -> int:
    try:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


@contextmanager
def served(folder: Path, ledger: str = "ledger.sqlite", tree: Path | None = None) -> Iterator[tuple[int, int]]:
    """Port and process id of a server; of another tree's, if one is given."""
    (folder / "toolfold.yaml").write_text(CONFIG % ledger, "utf-8")
    command = [sys.executable, "-m", "toolfold", "serve", "--config", str(folder / "toolfold.yaml")]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    if tree is not None:
        environment["PYTHONPATH"] = str(tree / "src")
    with subprocess.Popen(command, cwd=tree, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r":(\d+)$", line.strip())
            if match is None:
                raise SystemExit(line + process.stderr.read())
            yield int(match[1]), process.pid
        finally:
            process.terminate()


async def measure(port: int, server: int, replicas: dict[str, dict[str, float]] | None) -> int:
    await asyncio.sleep(1)
    await one_client(port)
    trip = await round_trip(port)
    took, errors = await many_clients(port)
    flood = await beside_a_flood(port)
    memory = await paused_memory(port, server)
    rows = [
        ("one continuation, p50", f"{trip:.2f} ms", "2.5 ms", trip <= 2.5),
        ("50 clients x 20 rounds, errors", f"{errors} in {took:.1f} s", "0", errors == 0),
        ("guest of a paused execution, of 200", f"{memory:.2f} MB", "3 MB", memory < 3),
        ("another tenant beside 200 endless loops", f"{flood:.1f} x", "3 x", flood <= 3),
    ]
    record.write(
        record.FOLDER / "http.json",
        title="The HTTP interface",
        command="make bench NAME=http",
        cases={
            "continuation": record.case("one continuation, p50", "ms", {"toolfold": trip}),
            "clients": record.case("50 clients with 20 rounds each", "s", {"toolfold": took}),
            "errors": record.case("errors in them", "", {"toolfold": errors}),
            "paused": record.case("guest of a paused execution, of 200", "MB", {"toolfold": memory}),
            "flood": record.case(
                "another tenant beside 200 endless loops, to the same alone", "×", {"toolfold": flood}
            ),
            **_replicas_cases(replicas or {}),
        },
        targets=[
            record.target("continuation", trip, 2.5, "ms", is_reached=trip <= 2.5),
            record.target("errors", errors, 0, "", is_reached=errors == 0),
            record.target("paused", memory, 3, "MB", is_reached=memory < 3),
            record.target("flood", flood, 3, "×", is_reached=flood <= 3),
        ],
    )
    table = Table("measured", "figure", "target", "")
    for name, figure, target, is_met in rows:
        table.add_row(name, figure, target, "met" if is_met else "MISSED")
    console = Console(width=100)
    console.print(table)
    console.print(_replicas_table(replicas) if replicas else "NOT RUN: replicas, because no redis-server was found")
    return 0 if all(row[3] for row in rows) else 1


def _replicas_cases(replicas: dict[str, dict[str, float]]) -> dict[str, Any]:
    first, *others = http_replicas.LANES
    return {
        f"{lane}, {sync}": record.case(
            f"one continuation, {lane} (appendfsync {sync}), to {first}", "×", {"toolfold": lanes[lane] / lanes[first]}
        )
        for sync, lanes in replicas.items()
        for lane in others
    }


def _replicas_table(replicas: dict[str, dict[str, float]]) -> Table:
    table = Table("one continuation, p50", *(f"appendfsync {sync}" for sync in replicas))
    for lane in http_replicas.LANES:
        first = http_replicas.LANES[0]
        ratios = (f"{lanes[lane]:.2f} ms, {lanes[lane] / lanes[first]:.1f} x" for lanes in replicas.values())
        table.add_row(lane, *ratios)
    return table


def main() -> int:
    replicas = http_replicas.medians(served, Client, loop(http_replicas.ROUNDS))
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (port, server):
        return asyncio.run(measure(port, server, replicas))


if __name__ == "__main__":
    sys.exit(main())
