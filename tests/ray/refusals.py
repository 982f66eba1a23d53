"""Real nodes that cannot run programs, and what is said of them before anything runs: part of `python -m tests.ray`.

A line says what was refused and how; the exit status is 1 if a text is not as it must be.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolfold import Limits, Runtime, ToolfoldError
from toolfold.sources.function_tools import tool

# It may create no user namespace, as on a hardened machine.
NO_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces && exec ray start --address {address} --num-cpus 1 --block"


async def refusal(address: str, tools: list[Any] | None = None, **options: Any) -> str:
    """What entering says."""
    try:
        async with Runtime(tools or [], engine="ray", engine_options={"address": address, **options}):
            return "nothing"
    except ToolfoldError as error:
        return str(error)


@contextmanager
def other_version(cluster: Any) -> Iterator[None]:
    """A node whose toolfold says that it is another."""
    with tempfile.TemporaryDirectory() as folder:
        about = Path(folder, "toolfold-9.9.9.dist-info")
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toolfold\nVersion: 9.9.9\n")
        node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": f"{folder}:{Path('src').resolve()}"})
        try:
            yield
        finally:
            cluster.remove_node(node)


@contextmanager
def without_namespaces(cluster: Any) -> Iterator[None]:
    """A node on which no user namespace can be made."""
    import ray

    command = NO_NAMESPACES.format(address=cluster.address)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    before = len(ray.nodes()) if ray.is_initialized() else 0
    node = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command], env={**os.environ, "PATH": path},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        cluster.connect()
        until = time.monotonic() + 60
        while sum(one["Alive"] for one in ray.nodes()) <= max(before, len(cluster.list_all_nodes())):
            if time.monotonic() > until or node.poll() is not None:
                raise RuntimeError("the node without namespaces did not start")
            time.sleep(0.2)
        ray.shutdown()
        yield
    finally:
        os.killpg(node.pid, 15)
        node.wait(30)


async def play(cluster: Any) -> list[str]:
    """What is wrong."""
    wrong = []

    @tool(read_only=True)
    async def look_up(n: int) -> int:
        """Not where other processes can import it."""
        return n

    def look(what: str, said: str, wanted: str) -> None:
        said = re.sub(r"\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS", said)
        print(f"{what}: {said}", flush=True)
        if not re.fullmatch(wanted, said):
            wrong.append(f"{what}: wanted {wanted!r}")

    look(
        "no cluster", await refusal("127.0.0.1:1"),
        "no Ray cluster at 'ADDRESS': Connection refused; start one with 'ray start --head', or give another address",
    )  # fmt: skip
    look(
        "a tool of a script", await refusal(cluster.address, [look_up], tools_on_nodes=["look_up"]),
        "tools_on_nodes: 'look_up' cannot run on nodes: nodes import tools, and it is not a function at the top level of a module",
    )  # fmt: skip
    async with Runtime(engine="ray", limits=Limits(sent_bytes=2 * 1024 * 1024)) as runtime:
        outcome = await runtime.run("'x' * 3_000_000")
    look("a result over the limit", f"{outcome.status}: {outcome.problem}", "limit: .* take more than 2 MiB; .*")
    with other_version(cluster):
        look(
            "another toolfold",
            await refusal(cluster.address),
            r"node ADDRESS cannot run programs: it has toolfold 9\.9\.9, and this is .*; install the same there",
        )
    with without_namespaces(cluster):
        look("no user namespaces", await refusal(cluster.address), "node ADDRESS cannot run programs: .*namespace.*")
    look("the others alone", await refusal(cluster.address), "nothing")
    return wrong


def main(cluster: Any) -> int:
    """Try each."""
    wrong = asyncio.run(play(cluster))
    for line in wrong:
        print(f"WRONG: {line}")
    print("refusals: " + ("FAILED" if wrong else "each said in one line, before anything ran"))
    return bool(wrong)
