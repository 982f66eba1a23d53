"""How long a client waits for `toolfold mcp`: `python -m bench.start`.

Each round starts, one after the other: an interpreter that only imports the SDK's server, which is
the floor of any server on that SDK; and `toolfold mcp` in either era, up to its first answer and up
to its list of tools. Wall clock, and the processor time that the process had used by then, which
other load on the machine moves less. The exit status is 1 if a median misses its target.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import record

FLOOR = "import of the SDK alone"
TARGET_SECONDS = 0.8
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
ERAS: dict[str, tuple[dict[str, Any], ...]] = {
    "initialize": ({"method": "initialize", "params": HANDSHAKE}, {"method": "tools/list"}),
    "discover": (
        {"method": "server/discover", "params": {"_meta": ENVELOPE}},
        {"method": "tools/list", "params": {"_meta": ENVELOPE}},
    ),
}
Taken = dict[str, list[tuple[float, float]]]


def floor() -> tuple[float, float]:
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", "import mcp.server"], check=True)
    after, ended = os.times(), time.perf_counter()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return ended - began, used


def start(folder: Path, era: str) -> list[tuple[float, float]]:
    """Seconds up to each answer: on the wall, and of the processor."""
    began, taken = time.perf_counter(), []
    command = [sys.executable, "-m", "toolfold", "mcp"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, message in enumerate(ERAS[era]):
            if number == 1 and era == "initialize":
                _send(process.stdin, {"method": "notifications/initialized"})
            _send(process.stdin, {"id": number, **message})
            answer = json.loads(process.stdout.readline())
            if "result" not in answer:
                raise RuntimeError(answer)
            taken.append((time.perf_counter() - began, _processor_seconds(process.pid)))
        process.stdin.close()
    return taken


def measure(rounds: int) -> Taken:
    taken: Taken = {FLOOR: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "toolfold.yaml").write_text("ledger: {where: memory}\n")
        start(folder, "initialize")  # writes what Python compiles once
        for _ in range(rounds):
            taken[FLOOR].append(floor())
            for era in ERAS:
                first, second = start(folder, era)
                taken.setdefault(f"{era}, answered", []).append(first)
                taken.setdefault(f"{era}, then the tools listed", []).append(second)
    return taken


# Any: the pipe of a process, and a JSON message.
def _send(pipe: Any, message: dict[str, Any]) -> None:
    pipe.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    pipe.flush()


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, metavar="N")
    before = os.getloadavg()[0]
    taken = measure(parser.parse_args().rounds)
    table = Table("up to", "median s", "worst s", "processor s", "target s")
    missed = False
    for name, pairs in taken.items():
        walls, median = [wall for wall, _ in pairs], statistics.median(wall for wall, _ in pairs)
        used = statistics.median(seconds for _, seconds in pairs)
        has_target = name.endswith("answered")
        missed |= has_target and median > TARGET_SECONDS
        table.add_row(
            name, f"{median:.3f}", f"{max(walls):.3f}", f"{used:.2f}", f"{TARGET_SECONDS:g}" if has_target else ""
        )
    Console().print(table)
    load = f"load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}"
    print(load)
    _write(taken, load)
    return 1 if missed else 0


def _write(taken: Taken, load: str) -> None:
    walls = {name: [wall for wall, _ in pairs] for name, pairs in taken.items()}
    medians = {name: statistics.median(one) for name, one in walls.items()}
    record.write(
        record.FOLDER / "start.json",
        title="The start of `toolfold mcp`",
        command="make bench-start",
        notes=[load],
        cases={
            name: {"title": name, "unit": "s", "runners": {"toolfold": record.cell(medians[name], one)}}
            for name, one in walls.items()
        },
        targets=[
            record.target(name, median, TARGET_SECONDS, "s", is_reached=median <= TARGET_SECONDS)
            for name, median in medians.items()
            if name.endswith("answered")
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
