"""The two places where a program runs: plain CPython, and a runtime with the process engine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.corpora.case import Case, End
from toolfold import Runtime
from toolfold.models import Limits, Outcome, ToolSpec
from toolfold.tools.tool import Tool

LIMITS: Final = Limits(wall_seconds=10.0, cpu_seconds=10, calls=10_000)
LIBRARIES: Final = ("numpy", "pandas", "scipy.stats", "matplotlib.pyplot", "sklearn", "sympy")
"""Imported before the first program that names one of them, for speed."""
_NAMED: Final = re.compile(
    r"\b(?:numpy|np|pandas|pd|scipy|sklearn|sympy|mpmath|matplotlib|plt|networkx|seaborn|statsmodels)\b"
)
_LINE_LIMIT: Final = 1 << 24
_CHILD: Final = Path(__file__).with_name("child.py")


class Outside:
    """Plain CPython: a server without libraries, and one that has them, each started when it is first needed."""

    def __init__(self, stack: AsyncExitStack, libraries: Sequence[str]) -> None:
        self._stack = stack
        self._libraries = libraries
        self._servers: dict[bool, asyncio.Task[_Server]] = {}

    async def run(self, case: Case, *, is_shaken: bool = False) -> End:
        """Shaken, objects lie elsewhere than in other runs, as they do from process to process."""
        needs_libraries = _NAMED.search(case.text) is not None
        request = {
            "text": case.text, "tools": list(case.tools), "seconds": case.seconds, "package": case.package,
            "shaken": is_shaken,
        }  # fmt: skip
        starting = self._server(needs_libraries)
        try:
            return await (await starting).ask(request)
        except ConnectionError:  # a program may end the process that it was forked from
            if self._servers.get(needs_libraries) is starting:
                del self._servers[needs_libraries]
            return await (await self._server(needs_libraries)).ask(request)

    def _server(self, needs_libraries: bool) -> asyncio.Task[_Server]:
        if needs_libraries not in self._servers:
            server = _server(self._libraries if needs_libraries else ())
            self._servers[needs_libraries] = asyncio.create_task(self._stack.enter_async_context(server))
        return self._servers[needs_libraries]


class _Server:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._asked: dict[int, asyncio.Future[End]] = {}
        self._count = 0
        self._has_ended = False

    async def ask(self, request: Mapping[str, Any]) -> End:
        assert self._process.stdin is not None
        if self._has_ended:
            raise ConnectionError("the server of plain CPython ended")
        self._count += 1
        future = self._asked[self._count] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps({**request, "id": self._count}).encode() + b"\n")
        return await future

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            end = json.loads(line)
            did = tuple(tuple(one) for one in end.pop("did"))
            self._asked.pop(end.pop("id")).set_result(End(**end, did=did))
        self._has_ended = True
        for future in self._asked.values():
            future.set_exception(ConnectionError("the server of plain CPython ended"))


@asynccontextmanager
async def outside(libraries: Sequence[str] = LIBRARIES) -> AsyncIterator[Outside]:
    async with AsyncExitStack() as stack:
        yield Outside(stack, libraries)


@asynccontextmanager
async def _server(libraries: Sequence[str]) -> AsyncIterator[_Server]:
    # Hash seed 0 is what a guest has.
    one = {"PYTHONHASHSEED": "0", "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(_CHILD), *libraries, limit=_LINE_LIMIT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | one,
    )  # fmt: skip
    assert process.stdin is not None
    server = _Server(process)
    listening = asyncio.create_task(server.listen())
    try:
        yield server
    finally:
        process.stdin.close()
        await process.wait()
        await listening


class Inside:
    """A warm runtime for programs without tools, and one whose tools change from program to program."""

    def __init__(self, plain: Runtime, changing: Runtime) -> None:
        self._plain = plain
        self._changing = changing
        self._turn = asyncio.Lock()

    async def run(self, case: Case) -> End:
        limits = replace(LIMITS, wall_seconds=case.seconds, cpu_seconds=max(1, int(case.seconds)))
        if not case.tools:
            return end_of(await self._plain.run(case.text, limits=limits))
        async with self._turn:
            self._changing.replace_tools([echo(name, schema) for name, schema in case.tools.items()])
            return end_of(await self._changing.run(case.text, limits=limits))


@asynccontextmanager
async def inside(warm: int = 1, engine: str = "process") -> AsyncIterator[Inside]:
    libraries = {"host_libraries": True} if engine == "process" else {}
    plain = Runtime(engine=engine, engine_options={"warm": warm, **libraries}, limits=LIMITS)
    changing = Runtime(engine=engine, engine_options={"warm": 1, **libraries}, limits=LIMITS)
    async with plain, changing:
        yield Inside(plain, changing)


def end_of(outcome: Outcome) -> End:
    problem = outcome.problem
    if problem is None:
        return End(stdout=outcome.stdout, ending="finished")
    name, _, words = problem.message.partition(": ")
    name = name.rpartition(".")[2]
    is_named = outcome.status == "failed" and name.isidentifier() and problem.kind == "exception"
    ending = name if is_named else "rejected" if outcome.status == "rejected" else problem.kind
    return End(stdout=outcome.stdout, ending=ending, kind=problem.kind, words=words if is_named else problem.message)


def echo(name: str, schema: Mapping[str, Any]) -> Tool:
    async def call(arguments: Mapping[str, Any]) -> Any:
        return {"tool": name, "arguments": dict(arguments)}

    return Tool(spec=ToolSpec(name=name, python_name=name, input_schema=schema), call=call)
