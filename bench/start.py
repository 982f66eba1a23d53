"""How long a client waits for `toolfold mcp`, and a person for `toolfold run`: `python -m bench.start`.

Each round starts, one after the other: an interpreter that only imports the SDK's server, which is
the floor of any server on that SDK; and `toolfold mcp` in either era, up to its first answer and up
to its list of tools. Wall clock, and the processor time that the process had used by then, which
other load on the machine moves less. Then, in turns: `toolfold run` with a small program, with one that imports pandas,
that import in Python alone, and `toolfold run` of the first release, which is checked out once into `build`.
The exit status is 1 if a median misses its target.
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
FIRST_RELEASE = "30c583f"
RUN, RUN_PANDAS = "run, a small program", "run, import pandas"
PANDAS, RUN_FIRST = "python, import pandas", "run of the first release, a small program"


def floor() -> tuple[float, float]:
    return command("-c", "import mcp.server")


def command(*arguments: str, cwd: Path | None = None, **environment: str) -> tuple[float, float]:
    """Seconds of one Python with these arguments, to its end: on the wall, and of the processor."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], check=True, cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    )
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


def measure_runs(rounds: int) -> Taken:
    """The four in turns, so that other load on the machine falls on all of them."""
    taken: Taken = {RUN: [], RUN_PANDAS: [], PANDAS: [], RUN_FIRST: []}
    first = _first_release()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text("print(1)")
        (folder / "pandas_program.py").write_text("import pandas")
        run = ("-m", "toolfold", "run", "--ledger", "ledger.sqlite")
        old = ("-m", "toolfold", "run", "--ledger", "first.sqlite", "program.py")
        for number in range(rounds + 1):
            one = {
                RUN: command(*run, "program.py", cwd=folder),
                RUN_PANDAS: command(*run, "pandas_program.py", cwd=folder),
                PANDAS: command("-c", "import pandas", cwd=folder),
            }
            if first is not None:
                one[RUN_FIRST] = command(*old, cwd=folder, PYTHONPATH=str(first))
            if number:  # the first round writes what Python compiles once
                for key, pair in one.items():
                    taken[key].append(pair)
    return {key: pairs for key, pairs in taken.items() if pairs}


def _first_release() -> Path | None:
    """Its sources, from the history of this repository; `None` where that is not at hand."""
    folder = record.FOLDER.parents[1] / "build" / "first-release"
    if not folder.exists():
        folder.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", FIRST_RELEASE, "src"], capture_output=True, check=False)
        if archive.returncode:
            folder.rmdir()
            return None
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder / "src"


def run_targets(taken: Taken) -> list[tuple[str, float, float]]:
    """What is compared, its value and its target, in seconds of the medians."""
    seconds = {name: statistics.median(wall for wall, _ in pairs) for name, pairs in taken.items()}
    targets = [(RUN_PANDAS, seconds[RUN_PANDAS], 1.2 * (seconds[RUN] + seconds[PANDAS]))]
    if RUN_FIRST in seconds:
        targets.append((RUN, seconds[RUN], 0.6 * seconds[RUN_FIRST]))
    return targets


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
    rounds = parser.parse_args().rounds
    taken = measure(rounds)
    runs = measure_runs(rounds)
    goals = {name: goal for name, _, goal in run_targets(runs)}
    table = Table("up to", "median s", "worst s", "processor s", "target s")
    missed = False
    for name, pairs in [*taken.items(), *runs.items()]:
        walls, median = [wall for wall, _ in pairs], statistics.median(wall for wall, _ in pairs)
        used = statistics.median(seconds for _, seconds in pairs)
        goal = TARGET_SECONDS if name.endswith("answered") else goals.get(name)
        missed |= goal is not None and median > goal
        shown = "" if goal is None else f"{goal:.3f} {'met' if median <= goal else 'MISSED'}"
        table.add_row(name, f"{median:.3f}", f"{max(walls):.3f}", f"{used:.2f}", shown)
    Console(width=110).print(table)
    print(
        "run, import pandas: at most 1.2 times a small run and the import; a small run: 0.6 times the first release's"
    )
    if RUN_FIRST not in runs:
        print(f"NOT MEASURED: the first release, for commit {FIRST_RELEASE} is not in this repository's history")
    load = f"load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}"
    print(load)
    _write({**taken, **runs}, load, run_targets(runs))
    return 1 if missed else 0


def _write(taken: Taken, load: str, goals: list[tuple[str, float, float]]) -> None:
    walls = {name: [wall for wall, _ in pairs] for name, pairs in taken.items()}
    medians = {name: statistics.median(one) for name, one in walls.items()}
    record.write(
        record.FOLDER / "start.json",
        title="The start of `toolfold mcp` and `toolfold run`",
        command="make bench NAME=start",
        notes=[load],
        cases={
            name: {"title": name, "unit": "s", "runners": {"toolfold": record.cell(medians[name], one)}}
            for name, one in walls.items()
        },
        targets=[
            *(
                record.target(name, median, TARGET_SECONDS, "s", is_reached=median <= TARGET_SECONDS)
                for name, median in medians.items()
                if name.endswith("answered")
            ),
            *(record.target(name, median, goal, "s", is_reached=median <= goal) for name, median, goal in goals),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
