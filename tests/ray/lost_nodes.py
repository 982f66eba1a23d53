"""500 programs on three nodes, each with a call in flight, while a raylet is killed, then an actor, then a node is drained.

`python -m tests.ray` runs it. Each program makes three calls that must not be made twice, and each of the three harms is
done while all 500 wait for the reply to one of them. A line says what was seen; the exit status is 1 if anything is not
as it must be.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import toolfold_guest
from toolfold import Limits, Runtime
from toolfold.batches import Item
from toolfold.engines.ray import RayEngine

PROGRAMS = 500
NOTICED_SECONDS = 60.0
TEXT = """
import random
before = random.random()
saved = [await save(n={n}, step=step) for step in (1, 2, 3)]
print(before)
[saved, before]
"""


class Held:
    """A tool whose calls wait until all programs have made theirs, and the harm is done."""

    def __init__(self) -> None:
        self.made: Counter[tuple[int, int]] = Counter()
        self.all_wait = {step: asyncio.Event() for step in (1, 2, 3)}
        self.go_on = {step: asyncio.Event() for step in (1, 2, 3)}

    async def save(self, n: int, step: int) -> int:
        """Must not be made twice."""
        self.made[n, step] += 1
        if sum(one == step for _, one in self.made) == PROGRAMS:
            self.all_wait[step].set()
        await self.go_on[step].wait()
        return n * 10 + step


async def play(cluster: Any) -> list[str]:
    """What is wrong."""
    held = Held()
    wrong: list[str] = []
    found: dict[int, Any] = {}
    began = time.monotonic()
    async with Runtime([held.save], engine="ray", limits=Limits(wall_seconds=300)) as runtime:
        engine: Any = runtime._engine
        assert isinstance(engine, RayEngine)
        harming = asyncio.create_task(_harm(cluster, engine, held))
        items = (Item(text=TEXT.format(n=n), tag=n) for n in range(PROGRAMS))
        async for one in runtime.map(items, in_flight=PROGRAMS):
            found[one.tag] = one.outcome
        wrong += await harming
        print(f"{len(found)} programs in {time.monotonic() - began:.1f} s; {engine.replays} were moved", flush=True)
        # The control of the check at the end: what it looks for is there while the engine is open.
        if not zygotes():
            wrong.append("the check for processes that are left sees none that run")
    for n in range(PROGRAMS):
        outcome = found.get(n)
        if outcome is None or outcome.status != "finished" or outcome.value[0] != [n * 10 + s for s in (1, 2, 3)]:
            wrong.append(f"program {n}: {outcome}")
        elif outcome.stdout != f"{outcome.value[1]}\n":
            wrong.append(f"program {n} printed {outcome.stdout!r} for {outcome.value[1]!r}")
    wrong += [f"call {key} was made {count} times" for key, count in held.made.items() if count != 1]
    return wrong


async def _harm(cluster: Any, engine: Any, held: Held) -> list[str]:
    """Three times: once all programs wait, do it; once programs have moved, let their calls return."""
    wrong = []
    harms: dict[int, Callable[[Any], str]] = {1: _kill_raylet, 2: _kill_actor, 3: _drain}
    for step, act in harms.items():
        await held.all_wait[step].wait()
        moved, there = engine.replays, {link: len(link.runs) for link in engine._fleet.links}
        began = time.monotonic()
        print(f"{PROGRAMS} calls in flight: {await asyncio.to_thread(act, cluster)}", flush=True)
        while not (lost := [link for link in there if link.is_lost]) and time.monotonic() - began < NOTICED_SECONDS:
            await asyncio.sleep(0.05)
        noticed, wanted = time.monotonic() - began, moved + sum(there[link] for link in lost)
        while engine.replays < wanted and time.monotonic() - began < NOTICED_SECONDS:
            await asyncio.sleep(0.05)
        print(f"  noticed after {noticed:.1f} s, {engine.replays - moved} programs moved", flush=True)
        if engine.replays == moved:
            wrong.append(f"{act.__name__}: no program was moved, so nothing was tried")
        held.go_on[step].set()
    return wrong


def _kill_raylet(cluster: Any) -> str:
    node = cluster.worker_nodes and min(cluster.worker_nodes, key=lambda one: one.node_id)
    process = node.all_processes["raylet"][0].process
    process.send_signal(signal.SIGKILL)
    return f"kill -9 of raylet {process.pid}"


def _kill_actor(cluster: Any) -> str:
    lines = _processes()
    # Neither the one whose raylet is gone already, nor that of the node that is drained next: it takes the programs over.
    spared = _to_drain(cluster).all_processes["raylet"][0].process.pid
    raylets = {pid for pid, line in lines.items() if "raylet" in line} - {spared}
    pids = [pid for pid, line in lines.items() if "ray::NodeActor" in line and _parent(pid) in raylets]
    os.kill(pids[0], signal.SIGKILL)
    return f"kill -9 of actor {pids[0]}"


def _to_drain(cluster: Any) -> Any:
    return sorted(cluster.worker_nodes, key=lambda one: one.node_id)[1]


def _drain(cluster: Any) -> str:
    import ray
    from ray.core.generated import autoscaler_pb2

    node = _to_drain(cluster)
    client = ray._raylet.GcsClient(address=cluster.address)
    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    deadline = int(time.time() * 1000) + 2000
    accepted, why = client.drain_node(node.node_id, reason, "maintenance", deadline)
    return f"node {node.node_id[:8]} drained, 2 s to leave: {accepted or why}"


def _processes() -> dict[int, str]:
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
    return found


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def zygotes() -> set[int]:
    """Processes from which guests are made."""
    ours = str(Path(toolfold_guest.__file__).parent / "jail")
    return {pid for pid, line in _processes().items() if ours in line}


def _guests(folder: str) -> list[int]:
    """Processes of ours whose temporary folder is this one: those of the nodes, and what they started."""
    found = []
    for pid in _processes():
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(folder) or folder in Path(f"/proc/{pid}/maps").read_text():
                found.append(pid)
        except OSError:
            continue
    return found


def main(cluster: Any, folder: str, before: set[int]) -> int:
    """Play it, and look for what is left of it in the temporary folder of the nodes."""
    wrong = asyncio.run(play(cluster))
    until = time.monotonic() + 30
    while (left := _left(folder, before)) and time.monotonic() < until:
        time.sleep(0.2)
    wrong += left
    for line in wrong[:20]:
        print(f"WRONG: {line}")
    print("lost nodes: " + ("FAILED" if wrong else f"all {PROGRAMS} ended right, no call twice, nothing left behind"))
    return bool(wrong)


def _left(folder: str, before: set[int]) -> list[str]:
    lines = _processes()
    left = [f"process {pid} is left: {lines.get(pid)}" for pid in (zygotes() | set(_guests(folder))) - before]
    left += [f"folder {path.name} is left" for path in Path(folder).iterdir() if path.name.startswith("toolfold")]
    left += [f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if folder in line]
    return left
