"""The two places where a program runs: plain CPython, and a runtime with the process engine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.corpora.case import Case, End
from toolfold import Runtime
from toolfold.models import Limits, Outcome, ToolSpec
from toolfold.tools.tool import Tool

SECONDS = 10.0
LIMITS = Limits(wall_seconds=SECONDS, cpu_seconds=int(SECONDS), calls=10_000)
LIBRARIES = ("numpy", "pandas", "scipy.stats", "matplotlib.pyplot", "sklearn", "sympy")
"""Imported before the first program, for speed."""
_LINE_LIMIT = 1 << 24
_CHILD = Path(__file__).with_name("child.py")


class Outside:
    """Plain CPython with the same libraries."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def run(self, case: Case) -> End:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"text": case.text, "tools": list(case.tools), "seconds": SECONDS}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        return End(**json.loads(await process.stdout.readline()))


@asynccontextmanager
async def outside(hash_seed: int = 0, libraries: Sequence[str] = LIBRARIES) -> AsyncIterator[Outside]:
    """Hash seed 0 is what a guest has."""
    one = {"PYTHONHASHSEED": str(hash_seed), "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore", str(_CHILD), *libraries, limit=_LINE_LIMIT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, **one},
    )  # fmt: skip
    assert process.stdin is not None
    try:
        yield Outside(process)
    finally:
        process.stdin.close()
        await process.wait()


class Inside:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def run(self, case: Case) -> End:
        self._runtime.replace_tools([echo(name, schema) for name, schema in case.tools.items()])
        return end_of(await self._runtime.run(case.text))


@asynccontextmanager
async def inside() -> AsyncIterator[Inside]:
    async with Runtime(engine="process", warm=1, limits=LIMITS, host_libraries=True) as runtime:
        yield Inside(runtime)


def end_of(outcome: Outcome) -> End:
    if outcome.problem is None:
        return End(stdout=outcome.stdout, ending="finished")
    name, _, words = outcome.problem.message.partition(": ")
    name = name.rpartition(".")[2]
    is_named = outcome.status == "failed" and name.isidentifier() and outcome.problem.kind == "exception"
    ending = name if is_named else "rejected" if outcome.status == "rejected" else outcome.problem.kind
    return End(stdout=outcome.stdout, ending=ending, words=words if is_named else outcome.problem.message)


def echo(name: str, schema: Mapping[str, Any]) -> Tool:
    async def call(arguments: Mapping[str, Any]) -> Any:
        return {"tool": name, "arguments": dict(arguments)}

    return Tool(spec=ToolSpec(name=name, python_name=name, input_schema=schema), call=call)
