"""Runtime: starts, resumes and ends executions, and runs the loop between an engine and a router.

`_begin` makes an execution of a text that passes the check, `_advance` is the loop that runs it, and the public verbs
start, resume and end it. What an execution consists of is in `toolfold.execution`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack, overload

import msgspec

from toolfold import fork_safety
from toolfold.check_runner import Checks
from toolfold.engines.base import (
    Called,
    Died,
    Ended,
    Engine,
    EngineSettings,
    EngineTools,
    Printed,
    ReplayTape,
    Served,
    Waiting,
)
from toolfold.engines.registry import chosen_engine
from toolfold.errors import EngineCrashed, Fenced, LedgerFailed, UsageError
from toolfold.events import Listener, Listeners
from toolfold.execution.calls import serve_direct
from toolfold.execution.described_files import DescribedFiles, describe_files
from toolfold.execution.pauses import PausedLimits
from toolfold.execution.registry import BackgroundExecution, ExecutionControl, LiveExecutions
from toolfold.execution.request import (
    OwnedLedger,
    RunRequest,
    RuntimeSettings,
    Services,
    check_types,
    known_keywords,
    merge_options,
    resolve_ledger,
)
from toolfold.execution.start import ExecutionPlanner, RuntimeTools, check_names
from toolfold.ledger import base
from toolfold.models import Call, Limits, Outcome, Paused, ProgramOptions, Reply, RunNames, StartOptions
from toolfold.sessions import Session, SessionLimits, Sessions
from toolfold.sources.function_tools import as_approve, as_tool
from toolfold.telemetry import usual_listeners
from toolfold.tools.learned_replies import create_learning
from toolfold.tools.policy import Policy
from toolfold.tools.router_steps import wrappers
from toolfold.tools.tool import ApproveCallback, CallContext, Decision, Spent, Tool

if TYPE_CHECKING:
    from pathlib import Path

    from toolfold.execution.batch import Mapped, Programs
    from toolfold.execution.execution import Execution
    from toolfold.ledger.base import Ledger
    from toolfold.models import File, Language, Problem, ProgramKeywords, StartKeywords, ToolSpec, Value
    from toolfold.sessions.stores import FileStore
    from toolfold.tools.router import Router, Wrapper


__all__ = ["Runtime", "RuntimeSettings"]

_TRIES: Final = 3
"""How often an execution goes on, if its guest is killed each time."""


class Runtime(fork_safety.ProcessOwned):
    """Runs programs. Enter it first; leaving it ends every guest. What the ledger keeps can be resumed elsewhere.

    Args:
        tools: What programs may call: functions, or `Tool` objects of any source.
        engine: `auto`, `process`, `wasm`, `monty`, `ray`, the name of an engine that others register, or an `Engine`.
        engine_options: Options of an engine that is given by name; those of the process engine are `isolation`, `warm`,
            `host_libraries` and `accept_no_isolation`.
        limits: For programs that are given none of their own.
        ledger: Where executions are kept, or its path; by default in memory, so that they end with this object.
        policy: Which tools may be called, and which only after asking.
        approve: Answers for tools that the policy asks for; without it `start` pauses for them.
        listeners: Told of what happens while it happens (`toolfold.events`), beside the log and OpenTelemetry.
        steps: The router's wrappers instead of the usual ones, which are made from the policy.
        session_files: Where sessions keep their files; by default in memory.
        settings: All these and more, as one value; what is given beside it counts more.
    """

    @known_keywords
    def __init__(
        self, tools: Iterable[Tool | Callable[..., Any]] = (), *, engine: str | Engine | None = None,
        engine_options: Mapping[str, Any] | None = None, limits: Limits | None = None,
        ledger: Ledger | OwnedLedger | str | Path | None = None, policy: Policy | None = None,
        approve: ApproveCallback | None = None, listeners: Sequence[Listener] | None = None,
        steps: Sequence[Wrapper] | None = None, session_files: FileStore | None = None,
        settings: RuntimeSettings | None = None,
    ) -> None:  # fmt: skip
        # Any: each setting has its own type.
        keywords: dict[str, Any] = {
            "engine": engine, "engine_options": engine_options, "limits": limits, "ledger": ledger, "policy": policy,
            "approve": approve, "listeners": listeners, "steps": steps, "session_files": session_files,
        }  # fmt: skip
        settings = msgspec.structs.replace(
            settings or RuntimeSettings(), **{name: value for name, value in keywords.items() if value is not None}
        )
        check_types(
            tools=tools, engine=settings.engine, limits=settings.limits, policy=settings.policy,
            approve=settings.approve, listeners=settings.listeners,
        )  # fmt: skip
        self._limits = settings.limits
        policy, session_limits = settings.policy, settings.session_limits or SessionLimits()
        guest_limits = {"max_kept_guests": session_limits.max_guests, "max_kept_bytes": session_limits.max_guest_bytes}
        engine_settings = EngineSettings(limits=self._limits, own_tools=self._own_tools, **guest_limits)
        self._ledger, self._has_own_ledger = resolve_ledger(settings.ledger)
        learning = create_learning(settings.learn, self._ledger, settings.embedder)
        steps = (*(wrappers(policy=policy) if settings.steps is None else settings.steps), learning.wrap)
        self._programs = settings.programs
        self._tools = tuple(map(as_tool, tools))
        self._offered: dict[str, tuple[object, ExecutionPlanner]] = {}
        self._shares_router = False
        self._make_offer = partial(RuntimeTools, policy=policy, steps=steps, learning=learning, programs=self._programs)
        offer = self._make_offer(self._tools)
        self._engine = chosen_engine(settings.engine, settings.engine_options, engine_settings)
        services = Services(
            engine=self._engine,
            router=offer.router,
            ledger=self._ledger,
            listeners=Listeners([*settings.listeners], usual_listeners(with_telemetry=settings.telemetry)),
            learning=learning,
            context=CallContext(
                entry_name=settings.entry_name,
                approve=settings.approve and as_approve(settings.approve),
                learned=learning.index,
            ),
            interface=settings.interface,
        )
        self._checks = Checks(self._engine)
        self.sessions = Sessions(
            self._engine.end_session, store=settings.session_files, limits=session_limits, now=self._ledger.now
        )
        self._base_planner = ExecutionPlanner(
            offer, services, sessions=self.sessions, checks=self._checks, may_ask=settings.may_ask
        )
        self._live = LiveExecutions(
            self._engine, self.sessions, settings.paused_limits or PausedLimits(), settings.before_files
        )
        self.executions = ExecutionControl(
            self._live, self._engine, self._ledger, self._limits, self.resume, settings.languages
        )
        if self._programs is not None:
            self._programs.bind(self)

    async def __aenter__(self) -> Self:
        self._check_process()
        await self._engine.__aenter__()
        self.catalog.learning.begin()
        fork_safety.watch(self)
        fork_safety.watch(self.executions)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._is_inherited:
            return
        await self.executions.close()
        self.sessions.close_guests()
        await self.catalog.learning.close()
        await self.catalog.router.catalog.close()
        await self._engine.__aexit__(*exc)
        if self._has_own_ledger:
            await self._ledger.close()

    async def open(self) -> Self:
        """Enter it where `async with` does not fit, as in the cells of a notebook; `close` ends it."""
        return await self.__aenter__()

    async def close(self) -> None:
        """Leave a runtime that was opened with `open`: every guest ends."""
        await self.__aexit__(None, None, None)

    @property
    def _planner(self) -> ExecutionPlanner:
        return self._planner_of("")

    def _planner_of(self, tenant: str) -> ExecutionPlanner:
        """With the saved programs that the tenant has now."""
        if self._programs is None or self._shares_router or not self._engine.capabilities.has_saved_programs:
            return self._base_planner
        owner, revision = self._programs.revision(tenant)
        known = self._offered.get(owner)
        if known is None or known[0] != revision:
            base = self._base_planner
            saved = partial(self._programs.tools, policy=base.offer.policy, tenant=owner)
            known = self._offered[owner] = revision, base.offering(self._make_offer(self._tools, saved_programs=saved))
        return known[1]

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Tools that programs may call."""
        return self._planner.offer.specs

    def _tools_of(self, tenant: str, *, hidden: Collection[str] = ()) -> tuple[ToolSpec, ...]:
        """Tools that the programs of a tenant may call, its own saved programs among them."""
        return self._planner_of(tenant).offer.granted((), hidden)

    @property
    def catalog(self) -> RuntimeTools:
        """The tools of the next execution, for interfaces: direct ones, the router, the search, what was learned."""
        return self._planner.offer

    async def describe_files(self, files: Iterable[File]) -> DescribedFiles:
        """These files, with a line on each that says what is in it, for a prompt; a guest reads them."""
        self._check_process()
        return await describe_files(self._engine, files, self._limits)

    def replace_tools(self, tools: Iterable[Tool | Callable[..., Any]], *, router: Router | None = None) -> None:
        """Other tools from the next execution on; those that run or are paused here keep theirs.

        `router` serves them instead of one that is made here, if it is shared with others.

        Raises:
            UsageError: two tools have one name; nothing has changed then.
        """
        new_tools = tuple(map(as_tool, tools))
        self._base_planner = self._base_planner.offering(self._make_offer(new_tools, router=router))
        self._tools, self._shares_router = new_tools, router is not None
        self._offered.clear()

    async def run(
        self, text: str, *, options: ProgramOptions | None = None, **keywords: Unpack[ProgramKeywords]
    ) -> Outcome:
        """A program, to its end.

        Its options are the fields of `ProgramOptions`: as keywords, as one value, or both; keywords count more.
        """
        if self._is_inherited:  # not the call alone: each program passes here
            self._check_process()
        options = merge_options(ProgramOptions, options, keywords)
        if isinstance(options, StartOptions):
            raise UsageError("run never pauses, so it takes ProgramOptions; give StartOptions to start")
        request = RunRequest(
            options=options, limits=options.limits or self._limits, session=self._session(options),
            is_strict=self._ledger.is_lasting,
        )  # fmt: skip
        step = await self._begin(text, request)
        assert isinstance(step, Outcome), "only `start` pauses"
        return step

    @overload
    async def start(
        self, text: str, *, background: Literal[True], options: ProgramOptions | None = None,
        **keywords: Unpack[StartKeywords],
    ) -> BackgroundExecution: ...  # fmt: skip
    @overload
    async def start(
        self, text: str, *, background: Literal[False] = False, options: ProgramOptions | None = None,
        **keywords: Unpack[StartKeywords],
    ) -> Paused | Outcome: ...  # fmt: skip
    async def start(
        self, text: str, *, background: bool = False, options: ProgramOptions | None = None,
        **keywords: Unpack[StartKeywords],
    ) -> Paused | Outcome | BackgroundExecution:  # fmt: skip
        """A program that may also call `tools`, which only the caller can answer, with `resume`.

        Its options are the fields of `StartOptions`, given as to `run`. `rerun_of` and `repeat` count up to the first
        pause that is resumed elsewhere.
        With `background` this returns at once, with the execution to wait for. It is durable where the ledger lasts, so
        that `executions.attach` goes on with it after a restart; but not in a session that keeps names, which a restart
        loses.
        """
        self._check_process()
        options = merge_options(StartOptions, options, keywords)
        if background:
            execution_id = options.execution_id or secrets.token_hex(8)
            durable = options.durable or (self._ledger.is_lasting and not options.keep_names)
            options = msgspec.structs.replace(options, execution_id=execution_id, durable=durable)
        # The ledger would refuse it too, but with the first one pushed out.
        if self._live.get(options.execution_id) is not None:
            raise base.duplicate_error(options.execution_id)
        request = RunRequest(
            options=options, limits=options.limits or self._limits, session=self._session(options),
            outside=options.tools, can_pause=bool(options.tools) or self._planner.asks_outside,
            expires_at=options.expires_at, is_durable=options.durable,
        )  # fmt: skip
        begun = self._begin(text, request)
        return self.executions.begin_in_background(options.execution_id, begun) if background else await begun

    async def resume(
        self, execution_id: str, replies: Sequence[Reply] = (), *, decisions: Mapping[int, Decision] | None = None
    ) -> Paused | Outcome:
        """Go on with some or all of the open calls answered or decided; also after a restart of this process."""
        self._check_process()
        for _ in range(_TRIES):
            step = await self._resume(execution_id, replies, decisions or {})
            if step is not None:
                return step
        raise EngineCrashed(f"the guest of execution {execution_id!r} was killed each time it went on; resume it again")

    async def _resume(
        self, execution_id: str, replies: Sequence[Reply], decisions: Mapping[int, Decision]
    ) -> Paused | Outcome | None:
        """One try; `None`: the guest died with no call made since the pause, so that a replay is safe."""
        execution = await self._live.find(execution_id)
        if execution is None:
            plan = await self._planner.revival(execution_id)
            services = self._planner_of(plan.start_record.tenant).services
            execution, past = self._live.add(plan, services), plan.past
            assert past is not None, "it is revived from its past"
            step = await self._open(execution)
            replies = [reply for reply in replies if past.reply_entry_for(reply.call_id) is None]
            decisions = {key: value for key, value in decisions.items() if past.reply_entry_for(key) is None}
            if isinstance(step, Outcome):
                return step
        if not replies and not decisions:
            if (paused := await execution.pause()) is None:
                return await self._guarded(execution)
            self._live.hand_back(execution)
            return paused
        call_count = execution.calls.count
        try:
            await execution.accept(replies, decisions)
            self._live.take_back(execution)
            return await self._guarded(execution)
        except asyncio.CancelledError:
            await self._live.close(execution)  # only the ledger knows whether they are taken: the next try asks it
            raise
        except EngineCrashed:
            if decisions or execution.calls.count > call_count or not execution.record.can_be_replayed:
                raise
            return None

    def map(self, programs: Programs, *, in_flight: int | None = None) -> AsyncGenerator[Mapped, None]:
        """Run many programs, and yield each with its outcome as soon as it ends.

        `programs` are texts, or `toolfold.batches.Item`s with what differs from one to the next; they are read only
        as there is room, `in_flight` at a time: by default twice the cores that the engine has. Failures of programs
        are outcomes. Failures of the engine are tried again where no call can happen twice, and then raised. Closing
        the iterator ends all that still runs.
        """
        # Here, not at the top: most runtimes run no batch.
        from toolfold.execution.batch import map_programs  # noqa: PLC0415

        cores = self._engine.capabilities.cores or os.cpu_count() or 1
        return map_programs(self, programs, in_flight=2 * cores if in_flight is None else in_flight)

    async def check(
        self, text: str, *, hidden: Collection[str] = (), tenant: str = "", language: Language = "python"
    ) -> Problem | None:
        """What the check says of a program, which is not run; `None` if it would begin."""
        self._check_process()
        options = ProgramOptions(hidden=hidden, tenant=tenant, language=language)
        return await self._planner_of(tenant).check(text, RunRequest(options=options, limits=self._limits))

    async def call(
        self, name: str, arguments: Mapping[str, Value], *, idempotency_key: str | None = None,
        spent: Spent | None = None, names: RunNames | None = None,
    ) -> Reply:  # fmt: skip
        """Call a tool directly, through the same router as a program; calls with the same key run once.

        With `spent` it is the call of a program that runs elsewhere, and counts towards that program's budgets.
        `names` are on record with it, as those of a program are.
        """
        self._check_process()
        names = names or RunNames()
        check_names(names)
        call = Call(id=0, tool=name, arguments=arguments)
        services = self._planner.services
        if spent is None and name in self._planner.offer.saved_names:
            return await self._call_program(call, names)
        return await serve_direct(services, call, idempotency_key=idempotency_key, spent=spent, names=names)

    async def _call_program(self, call: Call, names: RunNames) -> Reply:
        """A direct call of a saved program is a program that calls it."""
        spec = next(spec for spec in self.tools if spec.name == call.tool)
        text = f"await tools.{spec.python_name}(**{dict(call.arguments)!r})"
        options = ProgramOptions(
            **{"title": spec.name, **{key: value for key, value in msgspec.structs.asdict(names).items() if value}}
        )
        outcome = await self.run(text, options=options)
        if outcome.status == "finished":
            return Reply(call_id=0, value=outcome.value)
        message = outcome.problem.message if outcome.problem is not None else f"it ended as {outcome.status}"
        return Reply(call_id=0, error=message.removeprefix("ToolError: "))

    async def _begin(self, text: str, request: RunRequest) -> Paused | Outcome:
        planner = self._planner_of(request.options.tenant)  # the tools may be replaced meanwhile
        plan = await planner.plan(text, request)  # program text -> check
        if isinstance(plan, Outcome):
            return plan  # rejected: nothing ran
        step = await self._open(self._live.add(plan, planner.services))
        if self._programs is None or not isinstance(step, Outcome):
            return step
        hint = self._programs.hint_on(text, step, request.options.tenant)
        return dataclasses.replace(step, hints=(*step.hints, hint)) if hint else step

    async def _advance(self, execution: Execution) -> Paused | Outcome:
        """Events of the guest, calls to the router, replies back, outcome."""
        execution.clock.start()
        try:
            async for event in execution.life.run:  # engine
                match event:
                    case Called():  # tool call -> router -> reply -> program
                        for call in event.calls:
                            execution.calls.serve(call)
                    case Printed() | ReplayTape() | Served():
                        execution.keep(event)
                    case Waiting():
                        if execution.pauses.is_due(event.replies_seen):
                            paused = await execution.pause()
                            if paused is not None:
                                self._live.hand_back(execution)
                                return paused
                    case Ended() | Died():
                        last = event
                        break
            else:
                last = Died("the guest ended without a last event")
        finally:
            execution.clock.stop()
        if isinstance(last, Died):
            await self._live.close(execution)
            raise EngineCrashed(last.detail, started=execution.calls.started)
        return await self._live.finish(execution, last)

    def _own_tools(self, names: Sequence[str]) -> EngineTools:
        return self._planner.offer.own_tools(names)

    def _session(self, options: ProgramOptions) -> Session | None:
        return self.sessions.open(options.session, keep_names=options.keep_names) if options.session else None

    async def _open(self, execution: Execution) -> Paused | Outcome:
        try:
            await execution.open()
        except BaseException:
            await self._live.close(execution)  # nothing ran, so there is nothing to put on record
            if execution.plan.order.preparation is not None:
                execution.plan.order.preparation.discard()
            raise
        return await self._guarded(execution)

    async def _guarded(self, execution: Execution) -> Paused | Outcome:
        """Go on; whatever goes wrong on the way, nothing of the execution stays behind."""
        try:
            return await self._advance(execution)
        except asyncio.CancelledError:
            await self._live.close(execution)
            if not execution.life.is_settled:
                await self._live.end(execution)
            raise
        except (Fenced, LedgerFailed) as error:
            await self._live.close(execution)
            # Another one: the ledger gives the same to all who waited for it.
            failure = type(error)(*error.args)
            failure.started = execution.calls.started
            raise failure from error
        except BaseException:
            await self._live.close(execution)
            raise


# Any: a tool may be any function, and each engine has options of its own.
def run_sync(
    text: str, tools: Iterable[Tool | Callable[..., Any]] = (), *, engine: str | Engine = "auto",
    engine_options: Mapping[str, Any] | None = None, limits: Limits | None = None,
    ledger: Ledger | str | Path | None = None, policy: Policy | None = None, approve: ApproveCallback | None = None,
    listeners: Sequence[Listener] = (),
) -> Outcome:  # fmt: skip
    """Run one program from code that is not async; the keywords are those of `Runtime`.

    Where an event loop runs already, as in a notebook, the program has one of its own in another thread, and this one
    waits. In async code of your own, `await runtime.run(...)` keeps the loop free.
    """

    async def once() -> Outcome:
        runtime = Runtime(
            tools, engine=engine, engine_options=engine_options, limits=limits, ledger=ledger, policy=policy,
            approve=approve, listeners=listeners,
        )  # fmt: skip
        async with runtime:
            return await runtime.run(text)

    if running_loop() is None:
        return asyncio.run(once())
    # Imported here: few programs are run from a notebook.
    import contextvars  # noqa: PLC0415
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="toolfold-run") as threads:
        return threads.submit(context.run, asyncio.run, once()).result()


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
