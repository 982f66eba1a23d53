"""Batch of programs of many environments: they run in sandboxes of this process, a bounded number at a time.

Each environment has a tool object, as it would with a child process. What goes between a program and its executor is a
call of a function here instead of a message, and with a seed all programs say the same each time.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from mcp_types import CallToolResult, ListToolsResult

from toolfold.errors import UsageError
from toolfold.interfaces.callback.child_programs import InlinePrograms
from toolfold.interfaces.callback.child_server import TOOL, final_result, parse_request, refusal_result
from toolfold.interfaces.callback.messages import TOOL_NAME, WORKSPACE
from toolfold.interfaces.gem.child_connection import Child, ChildConnection
from toolfold.interfaces.gem.program_tool import Executor, OnOutput, ProgrammaticToolCallingTool, answer_current
from toolfold.models import Json, Limits, ProgramOptions
from toolfold.runtime import Runtime, RuntimeSettings

_T = TypeVar("_T")
CLOCK: Final = 1_767_225_600.0
"""The first moment of 2026: what programs take for the present where there is a seed."""
_LEAST_IN_FLIGHT: Final = 16


class ProgramBatch:
    """Where the programs of many environments run. Close it, or use `with`.

    Args:
        in_flight: How many programs run at a time; by default twice the cores, at least 16, since a program often
            waits for its executor.
        seed: Makes what programs say the same each time; `None` for fresh randomness and the real time.
        engine: Where programs run, as in `toolfold.Runtime`.
        limits: Of each program.
    """

    def __init__(
        self, *, in_flight: int | None = None, seed: int | None = None, engine: str = "auto",
        engine_options: Mapping[str, Any] | None = None, limits: Limits | None = None,
    ) -> None:  # fmt: skip
        if in_flight is not None and in_flight < 1:
            raise UsageError(f"in_flight is {in_flight!r}; at least 1 program must be in flight")
        most = in_flight or max(_LEAST_IN_FLIGHT, 2 * (os.cpu_count() or 1))
        self._seed = seed
        self._runners: list[_EnvironmentRunner] = []
        self._link = ChildConnection(lambda: _open_child(engine, engine_options, limits, most))
        self._finalizer = weakref.finalize(self, self._link.close)

    def __enter__(self) -> ProgramBatch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def tool(
        self, tool_executor: Executor | None = None, *, workspace_path: str | Path | None = None,
        on_output: OnOutput | None = None, cache_seconds: float = 0.0,
    ) -> ProgrammaticToolCallingTool:  # fmt: skip
        """The tool object of one environment; its arguments are those of the other ways to make one."""
        runner = _EnvironmentRunner(self._link, len(self._runners), self._seed)
        self._runners.append(runner)
        return ProgrammaticToolCallingTool(
            runner, tool_executor=tool_executor, on_output=on_output, cache_seconds=cache_seconds,
            workspace=Path(workspace_path or ".").absolute(),
        )  # fmt: skip

    def reseed(self, seed: int | None) -> None:
        """Begin anew with another seed, or with the same: for whoever resets the environments."""
        self._seed = seed
        for runner in self._runners:
            runner.reseed(seed)

    def close(self) -> None:
        """End the sandboxes; the next program starts them anew."""
        self._link.close()


class _EnvironmentRunner:
    def __init__(self, link: ChildConnection, number: int, seed: int | None) -> None:
        self._link = link
        self._number = number
        self.reseed(seed)

    def reseed(self, seed: int | None) -> None:
        self._seed = seed
        self._programs = 0

    def run(self, work: Callable[[Child], Coroutine[object, None, _T]]) -> _T:
        return self._link.run(lambda child: work(self._with_seed(child)))

    def close(self) -> None:
        """Nothing: the batch outlives its environments."""

    def _with_seed(self, child: Child) -> Child:
        assert isinstance(child, _LocalChild)
        if self._seed is None:
            return child
        self._programs += 1
        name = f"{self._number}_{self._programs}"
        digest = hashlib.sha256(f"{self._seed} {name}".encode()).digest()
        return replace(child, seed=int.from_bytes(digest[:4]), name=name)


@asynccontextmanager
async def _open_child(
    engine: str, engine_options: Mapping[str, Any] | None, limits: Limits | None, in_flight: int
) -> AsyncIterator[Child]:
    settings = RuntimeSettings(
        engine=engine, engine_options=engine_options, entry_name=TOOL_NAME, interface="gem", steps=(), learn=False
    )
    async with Runtime(limits=limits, settings=settings) as runtime:
        yield _LocalChild(InlinePrograms(runtime, limits=limits), asyncio.Semaphore(in_flight))


@dataclass(frozen=True, slots=True)
class _LocalChild:
    """Stands where the connection to a child would."""

    programs: InlinePrograms
    room: asyncio.Semaphore
    seed: int | None = None
    name: str = ""

    async def call_tool(
        self, name: str, arguments: dict[str, Json] | None = None, *, meta: Json = None
    ) -> CallToolResult:
        assert name == TOOL_NAME
        try:
            request = parse_request(arguments or {}, Path(meta[WORKSPACE]))
        except UsageError as error:
            return refusal_result(error)
        if self.seed is not None:
            request = replace(request, options=ProgramOptions(seed=self.seed, clock=CLOCK), name=self.name)
        async with self.room:
            text, has_failed = await self.programs.run(request, answer_current)
        return final_result(text, has_failed=has_failed)

    # Any: as the SDK's client has it.
    async def list_tools(self, **_: Any) -> ListToolsResult:
        return ListToolsResult(tools=[TOOL])
