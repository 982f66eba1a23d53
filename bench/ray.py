"""What a Ray cluster costs over the engine of this machine: `make bench NAME=ray`, or `python -m bench.ray`.

Both run in turns in the same process: programs one after the other, calls, programs of a kept session, and batches with
many and with few in flight. The cluster is on this machine too and has no cores of its own: what it costs shows, what
more machines would bring does not. Peers: a Ray task that starts `python -c`, and a Ray actor with raw Monty. The exit
status is 1 if a target is missed.
"""

import argparse
import asyncio
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import record
from bench.ray_tools import double
from toolfold import Runtime

LOCAL, RAY, NODE = "process", "ray", "ray, tools on nodes"
TASK, MONTY = "ray task, python -c", "ray actor, raw monty"
RUNNERS = (LOCAL, RAY, NODE, TASK, MONTY)
SHORT, LONG = 50, 250
MANY, FEW = 64, 4
SLICES = 10
SETTLE_SECONDS = 0.05
"""Before each program with calls: by then the guests are made that the program before it left to be made."""


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


class Ours:
    """One engine, measured through the runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def empty(self) -> float:
        return 1000 * await _timed(lambda: self._run("1"))

    async def call(self) -> float:
        """By what a longer program takes over a shorter one, so that how they begin and end is not in it."""
        longer = await self._settled(LONG)
        return 1000 * (longer - await self._settled(SHORT)) / (LONG - SHORT)

    async def _settled(self, calls: int) -> float:
        await asyncio.sleep(SETTLE_SECONDS)
        return await _timed(lambda: self._run(f"for n in range({calls}): await double(x=n)"))

    async def session(self) -> float:
        return 1000 * await _timed(lambda: self._run("1", session="bench", keep_names=True))

    async def rate(self, programs: int, in_flight: int) -> tuple[float, float]:
        """Programs a second, and milliseconds of this process's own CPU for each."""

        async def batch() -> None:
            async for one in self._runtime.map(["1"] * programs, in_flight=in_flight):
                assert one.outcome.value == 1, one.outcome

        began = time.process_time()
        rate = programs / await _timed(batch)
        return rate, 1000 * (time.process_time() - began) / programs

    async def _run(self, text: str, **options: Any) -> None:
        outcome = await self._runtime.run(text, **options)
        assert outcome.status == "finished", outcome


def _subprocess() -> int:
    return subprocess.run([sys.executable, "-c", "1"], check=True).returncode


class _RawMonty:
    """An actor with Monty in it, and nothing around it."""

    def __init__(self) -> None:
        import pydantic_monty  # noqa: PLC0415 - in the actor alone

        self._pool = pydantic_monty.AsyncMonty(min_processes=2, max_processes=8)
        self._is_open = False

    async def run(self) -> None:
        if not self._is_open:
            await self._pool.__aenter__()
            self._is_open = True
        async with self._pool.checkout() as session:
            await session.feed_run("1")


class Peers:
    def __init__(self) -> None:
        import ray  # noqa: PLC0415 - an extra

        self._task = ray.remote(num_cpus=0)(_subprocess)
        self._monty = ray.remote(num_cpus=0)(_RawMonty).remote()

    async def empty(self, name: str) -> float:
        async def one() -> None:
            await (self._task.remote() if name == TASK else self._monty.run.remote())

        return 1000 * await _timed(one)


async def measure(rounds: int, programs: int) -> dict[str, dict[str, list[float]]]:
    taken: dict[str, dict[str, list[float]]] = {}

    def note(case: str, runner: str, figure: float) -> None:
        taken.setdefault(case, {}).setdefault(runner, []).append(figure)

    async with AsyncExitStack() as stack:
        ways: dict[str, Any] = {
            LOCAL: {"engine": "process"},
            RAY: {"engine": "ray"},
            NODE: {"engine": "ray", "engine_options": {"tools_on_nodes": ["double"]}},
        }
        made = {name: await stack.enter_async_context(Runtime([double], **way)) for name, way in ways.items()}
        engines = {name: Ours(runtime) for name, runtime in made.items()}
        peers = Peers()
        for ours in engines.values():  # what is loaded once
            await ours.empty()
            await ours.session()
        for name in (TASK, MONTY):
            await peers.empty(name)
        for _ in range(rounds):
            for name, ours in engines.items():
                note("call", name, await ours.call())
                if name == NODE:
                    continue  # as RAY, but for its calls
                for _ in range(5):
                    note("empty", name, await ours.empty())
                    note("session", name, await ours.session())
            for name in (TASK, MONTY):
                note("empty", name, await peers.empty(name))
        # In slices and in turns, so that what else the machine does falls on both.
        for _ in range(SLICES):
            for case, in_flight in (("many", MANY), ("few", FEW)):
                for name in (LOCAL, RAY):
                    rate, cpu = await engines[name].rate(programs // SLICES, in_flight)
                    note(case, name, rate)
                    note(f"{case} cpu", name, cpu)
    return taken


@contextmanager
def _nodes(count: int) -> Any:
    # Ray makes its workers give way to others (15); the engine beside them does not.
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"})
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - reads the variable

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            cluster.add_node(num_cpus=2)
        os.environ["RAY_ADDRESS"] = cluster.address
        yield
    finally:
        cluster.shutdown()


TITLES = {
    "empty": ("an empty program, start to end", "ms"),
    "call": ("one call and its reply", "ms"),
    "session": ("a program of a session that keeps names", "ms"),
    "many": (f"empty programs, {MANY} in flight", "/s"),
    "few": (f"empty programs, {FEW} in flight", "/s"),
    "many cpu": (f"CPU of the runtime for one of {MANY} in flight", "ms"),
    "few cpu": (f"CPU of the runtime for one of {FEW} in flight", "ms"),
}


def targets(figures: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    def over(case: str) -> float:
        return figures[case][RAY] - figures[case][LOCAL]

    def part(case: str) -> float:
        return figures[case][RAY] / figures[case][LOCAL]

    wanted = [
        ("empty", over("empty"), 3.0, "ms over process", "at most"),
        ("call to the runtime", over("call"), 1.5, "ms over process", "at most"),
        ("call on the node", figures["call"][NODE] / figures["call"][LOCAL], 1.3, "× process", "at most"),
        ("many", part("many"), 0.8, "× process", "at least"),
        ("few", part("few"), 0.65, "× process", "at least"),
    ]
    return [
        record.target(
            case, figure, limit, unit, runner=RAY, sense=sense,
            is_reached=figure <= limit if sense == "at most" else figure >= limit,
        )
        for case, figure, limit, unit, sense in wanted
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.ray", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, metavar="N")
    parser.add_argument("--programs", type=int, default=5000, metavar="N", help="of each batch")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="of the cluster, all on this machine")
    options = parser.parse_args()
    if importlib.util.find_spec("ray") is None:
        print("NOT RUN: Ray is not installed; pip install -r requirements/ray.txt")
        return 0
    load = os.getloadavg()[0]
    with _nodes(options.nodes):
        taken = asyncio.run(measure(options.rounds, options.programs))
    figures = {case: {name: statistics.median(one) for name, one in runners.items()} for case, runners in taken.items()}
    judged = targets(figures)
    table = Table("", *RUNNERS, title=f"{options.nodes} node(s); load before: {load:.1f}")
    for case, (title, unit) in TITLES.items():
        cells = [f"{figures[case][name]:.2f}" if name in figures[case] else "" for name in RUNNERS]
        table.add_row(f"{title}, {unit}", *cells)
    console = Console(width=140)
    console.print(table)
    for one in judged:
        mark = "reached" if one["is_reached"] else "MISSED"
        console.print(f"{one['case']}: {one['figure']:.2f} {one['unit']}, {one['sense']} {one['limit']}: {mark}")
    cases = {case: record.case(*TITLES[case], runners) for case, runners in figures.items()}
    record.write(
        record.FOLDER / "ray.json", title="A Ray cluster beside this machine", command="make bench NAME=ray",
        cases=cases, targets=judged, notes=[f"{options.nodes} node(s) on this machine; load before: {load:.1f}"],
    )  # fmt: skip
    return not all(one["is_reached"] for one in judged)


if __name__ == "__main__":
    sys.exit(main())
