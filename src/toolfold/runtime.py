"""The one place that knows both an engine and a router: text in, outcome out."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from toolfold.engines.auto import engine_named
from toolfold.engines.base import Called, Died, Ended, Engine, Order, Printed, Waiting
from toolfold.errors import EngineCrashed, UsageError
from toolfold.execution import Execution
from toolfold.models import Call, Limits, Outcome, Paused, Problem, Reply
from toolfold.program.check import Checker
from toolfold.sources.functions import as_tool
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from toolfold.models import CallRecord, File, ToolSpec, Value
    from toolfold.tools.tool import Tool


LARGE_TEXT_CHARACTERS = 32 * 1024
"""Parsing more than this could hold up every other execution."""


class Runtime:
    """Runs programs. Enter it first; leaving it ends every guest and every paused execution.

    Args:
        tools: What programs may call: functions, or `Tool` objects of any source.
        engine: `auto`, `process`, `monty`, or an engine of one's own.
        isolation: The tier of the process engine; fails closed.
        limits: For programs that are given none of their own.
    """

    def __init__(
        self, tools: Iterable[Tool | Callable[..., Any]] = (), *, engine: str | Engine = "auto",
        isolation: str = "namespace", limits: Limits | None = None, warm: int = 2, accept_no_isolation: bool = False,
    ) -> None:  # fmt: skip
        self._limits = limits or Limits()
        self._catalog = Catalog(as_tool(tool) for tool in tools)
        self._router = Router(self._catalog)
        self._specs = tuple(spec for spec in self._catalog.specs if spec.allowed_callers != "direct")
        self._checker = Checker(self._specs)
        self._engine = (
            engine_named(
                engine, isolation=isolation, limits=self._limits, warm=warm, accept_no_isolation=accept_no_isolation
            )
            if isinstance(engine, str)
            else engine
        )
        self._executions: dict[str, Execution] = {}

    async def __aenter__(self) -> Runtime:
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for execution in tuple(self._executions.values()):
            await self._close(execution)
        await self._engine.__aexit__(*exc)

    async def run(
        self, text: str, *, files: Sequence[File] = (), limits: Limits | None = None,
        on_call: Callable[[CallRecord], None] | None = None,
    ) -> Outcome:  # fmt: skip
        """A program, to its end."""
        step = await self._begin(text, (), files, limits, on_call)
        assert isinstance(step, Outcome), "only a tool of the caller's can pause a program"
        return step

    async def start(
        self, text: str, *, tools: Sequence[ToolSpec] = (), files: Sequence[File] = (), limits: Limits | None = None,
        on_call: Callable[[CallRecord], None] | None = None,
    ) -> Paused | Outcome:  # fmt: skip
        """A program that may also call `tools`, which only the caller can answer, with `resume`."""
        return await self._begin(text, tools, files, limits, on_call)

    async def resume(self, execution_id: str, replies: Sequence[Reply]) -> Paused | Outcome:
        """Go on with some or all of the open calls answered."""
        execution = self._executions.get(execution_id)
        if execution is None:
            raise UsageError(f"no paused execution {execution_id!r}; it ended, was cancelled, or never was")
        if not replies:
            return execution.pause()
        execution.accept(replies)
        return await self._advance(execution)

    async def call(self, name: str, arguments: Mapping[str, Value]) -> Reply:
        """One direct call, through the same router as a program's."""
        return await self._router.serve(Call(id=0, tool=name, arguments=arguments), caller="direct")

    async def cancel(self, execution_id: str) -> None:
        """End an execution, running or paused; unknown ids are ignored, so that a cancel can race the end."""
        execution = self._executions.get(execution_id)
        if execution is not None:
            execution.run.stop("cancelled")
            if execution.is_paused:
                await self._close(execution)

    async def _begin(
        self, text: str, outside: Sequence[ToolSpec], files: Sequence[File], limits: Limits | None,
        on_call: Callable[[CallRecord], None] | None,
    ) -> Paused | Outcome:  # fmt: skip
        limits = limits or self._limits
        execution_id = secrets.token_hex(8)
        specs = (*self._specs, *outside) if outside else self._specs
        checker = Checker(specs) if outside else self._checker
        if len(text) < LARGE_TEXT_CHARACTERS:
            program = checker.check(text, limits=limits)  # program text -> check
        else:
            program = await asyncio.to_thread(checker.check, text, limits=limits)
        if isinstance(program, Problem):
            engine, isolation = self._engine.name, self._engine.isolation
            return Outcome(
                execution_id=execution_id, status="rejected", problem=program, engine=engine, isolation=isolation
            )
        order = Order(program=program, tools=specs, limits=limits, files=files, report_waiting=bool(outside))
        execution = Execution(execution_id, order, self._engine, self._router, outside, on_call)
        self._executions[execution_id] = execution
        try:
            await execution.open()
            return await self._advance(execution)
        except BaseException:
            await self._close(execution)
            raise

    async def _advance(self, execution: Execution) -> Paused | Outcome:
        """The whole flow: events of the guest, calls to the router, replies back, outcome."""
        with execution.clock():
            async for event in execution.run:  # engine
                match event:
                    case Called():  # tool call -> router -> reply -> program
                        execution.serve(event.call)
                    case Printed():
                        execution.keep(event)
                    case Waiting():
                        if execution.waits_for_the_outside(event.replies_seen):
                            return execution.pause()
                    case Ended() | Died():
                        last = event
                        break
            else:
                last = Died("the guest ended without a last event")
        await self._close(execution)
        if isinstance(last, Died):
            raise EngineCrashed(last.detail, started=execution.started)
        return execution.outcome(last)

    async def _close(self, execution: Execution) -> None:
        self._executions.pop(execution.id, None)
        await execution.close()


def run_sync(text: str, *, tools: Iterable[Tool | Callable[..., Any]] = (), **options: Any) -> Outcome:
    """Run one program from code that is not async; `options` are those of `Runtime`."""

    async def once() -> Outcome:
        async with Runtime(tools, **options) as runtime:
            return await runtime.run(text)

    return asyncio.run(once())
