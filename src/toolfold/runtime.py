"""The one place that knows both an engine and a router: text in, outcome out."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any

from toolfold.engines.auto import engine_named
from toolfold.engines.base import Called, Died, Ended, Engine, Order, Printed, Taped, Waiting
from toolfold.errors import EngineCrashed, UsageError
from toolfold.execution import Execution
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.record import Begun, History, Ledger
from toolfold.models import Call, Limits, Outcome, Paused, Problem, Reply
from toolfold.program.check import Checker
from toolfold.replay import Past, Rerun
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
        ledger: Where executions are kept; by default in memory, so that they end with this object.
    """

    def __init__(
        self, tools: Iterable[Tool | Callable[..., Any]] = (), *, engine: str | Engine = "auto",
        isolation: str = "namespace", limits: Limits | None = None, warm: int = 2, accept_no_isolation: bool = False,
        ledger: Ledger | None = None,
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
        self._ledger: Ledger = ledger or MemoryLedger()
        self._executions: dict[str, Execution] = {}

    async def __aenter__(self) -> Runtime:
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for execution in tuple(self._executions.values()):
            await self._close(execution)
        await self._engine.__aexit__(*exc)

    async def run(
        self, text: str, *, files: Sequence[File] = (), limits: Limits | None = None, rerun_of: str = "",
        on_call: Callable[[CallRecord], None] | None = None,
    ) -> Outcome:  # fmt: skip
        """A program, to its end.

        With `rerun_of`, calls that an earlier execution made too get the replies they got there.
        """
        step = await self._begin(text, (), files, limits, on_call, rerun_of)
        assert isinstance(step, Outcome), "only a tool of the caller's can pause a program"
        return step

    async def start(
        self, text: str, *, tools: Sequence[ToolSpec] = (), files: Sequence[File] = (), limits: Limits | None = None,
        on_call: Callable[[CallRecord], None] | None = None,
    ) -> Paused | Outcome:  # fmt: skip
        """A program that may also call `tools`, which only the caller can answer, with `resume`."""
        return await self._begin(text, tools, files, limits, on_call, "")

    async def resume(self, execution_id: str, replies: Sequence[Reply]) -> Paused | Outcome:
        """Go on with some or all of the open calls answered; also after a restart of this process."""
        execution = self._executions.get(execution_id)
        if execution is None:
            past, execution = await self._revive(execution_id)
            step = await self._open(execution)
            replies = [reply for reply in replies if past.given_to(reply.call_id) is None]
            if isinstance(step, Outcome) or not replies:
                return step
        if not replies:
            return await execution.pause()
        await execution.accept(replies)
        return await self._advance(execution)

    async def call(self, name: str, arguments: Mapping[str, Value]) -> Reply:
        """One direct call, through the same router as a program's."""
        return await self._router.serve(Call(id=0, tool=name, arguments=arguments), caller="direct")

    async def cancel(self, execution_id: str) -> None:
        """End an execution, running or paused; unknown ids are ignored, so that a cancel can race the end."""
        execution = self._executions.get(execution_id)
        if execution is None:
            return
        if execution.is_paused:
            await self._give_up(execution)
        else:
            execution.run.stop("cancelled")

    async def _begin(
        self, text: str, outside: Sequence[ToolSpec], files: Sequence[File], limits: Limits | None,
        on_call: Callable[[CallRecord], None] | None, rerun_of: str,
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
        rerun = Rerun(await self._history(rerun_of)) if rerun_of else None
        begun = Begun(
            execution_id=execution_id,
            program=program,
            tools=specs,
            outside=tuple(spec.name for spec in outside),
            limits=limits,
            files=tuple(files),
            seed=secrets.randbits(32),
            engine=self._engine.name,
            isolation=self._engine.isolation,
            rerun_of=rerun_of,
            began_at=time.time(),
        )
        execution = self._execution(begun, Taped() if outside else None, on_call=on_call, rerun=rerun)
        return await self._open(execution)

    def _execution(self, begun: Begun, tape: Taped | None, **options: Any) -> Execution:
        order = Order(
            program=begun.program,
            tools=begun.tools,
            limits=begun.limits,
            files=begun.files,
            seed=begun.seed,
            tape=tape,
            report_waiting=tape is not None,
        )
        execution = Execution(begun, order, engine=self._engine, router=self._router, ledger=self._ledger, **options)
        self._executions[begun.execution_id] = execution
        return execution

    async def _open(self, execution: Execution) -> Paused | Outcome:
        try:
            await execution.open()
            return await self._advance(execution)
        except asyncio.CancelledError:
            await self._give_up(execution)
            raise
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
                    case Printed() | Taped():
                        execution.keep(event)
                    case Waiting():
                        if execution.waits_for_the_outside(event.replies_seen):
                            return await execution.pause()
                    case Ended() | Died():
                        last = event
                        break
            else:
                last = Died("the guest ended without a last event")
        await self._close(execution)
        if isinstance(last, Died):
            raise EngineCrashed(last.detail, started=execution.started)
        return await execution.finish(last)

    async def _revive(self, execution_id: str) -> tuple[Past, Execution]:
        """Take over an execution that another process paused, and replay it."""
        history = await self._history(execution_id)
        if history.state == "ended":
            raise UsageError(f"execution {execution_id!r} has ended; there is nothing to resume")
        past = Past(history)
        epoch = await self._ledger.takeover(execution_id)
        return past, self._execution(history.begun, past.tape, past=past, epoch=epoch)

    async def _history(self, execution_id: str) -> History:
        history = await self._ledger.load(execution_id)
        if history is None:
            raise UsageError(f"no execution {execution_id!r} in the ledger; it was cancelled, or never was")
        return history

    async def _give_up(self, execution: Execution) -> None:
        await self._close(execution)
        await execution.finish(Ended(status="cancelled"))

    async def _close(self, execution: Execution) -> None:
        self._executions.pop(execution.id, None)
        await execution.close()


def run_sync(text: str, *, tools: Iterable[Tool | Callable[..., Any]] = (), **options: Any) -> Outcome:
    """Run one program from code that is not async; `options` are those of `Runtime`."""

    async def once() -> Outcome:
        async with Runtime(tools, **options) as runtime:
            return await runtime.run(text)

    return asyncio.run(once())
