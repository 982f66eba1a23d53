"""The one place that knows both an engine and a router: text in, outcome out."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from toolfold import forks
from toolfold.checking import LARGE_TEXT_CHARACTERS, LargeChecks
from toolfold.engines.base import (
    Called,
    Died,
    Ended,
    Engine,
    EngineSettings,
    Guests,
    Printed,
    Taped,
    Waiting,
)
from toolfold.engines.registry import chosen_engine, with_old_keywords
from toolfold.errors import EngineCrashed, Fenced, LedgerFailed, UsageError
from toolfold.execution.earlier import earlier_output
from toolfold.execution.execution import Execution
from toolfold.execution.paused_memory import PausedLimits, PausedMemory
from toolfold.execution.recorded import end_recorded, recorded
from toolfold.execution.replay import Past, Rerun, snapshot_of
from toolfold.execution.savings import context_saved
from toolfold.ledger import refusals
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.otel import usual_observer
from toolfold.ledger.record import Begun
from toolfold.models import Call, Limits, Outcome, Paused, Problem, Reply
from toolfold.program.check import Checker
from toolfold.sessions import SessionLimits, Sessions, bound_names
from toolfold.sources.functions import as_tool
from toolfold.tools.catalog import Catalog
from toolfold.tools.context import CallContext
from toolfold.tools.names import spared_spec
from toolfold.tools.policy import Policy
from toolfold.tools.router import Router
from toolfold.tools.search import SEARCH_SPEC, Index, describe, search_tool
from toolfold.tools.wrappers import wrappers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from toolfold.engines.monty.type_check import TypeChecker
    from toolfold.execution.recorded import Recorded
    from toolfold.ledger.observe import Observer
    from toolfold.ledger.record import History, Ledger
    from toolfold.models import CallRecord, File, LibrarySet, Program, Status, ToolSpec, Value
    from toolfold.sessions import Session
    from toolfold.sessions.stores import Store
    from toolfold.tools.context import Approve, Decision
    from toolfold.tools.router import Wrapper
    from toolfold.tools.search import Detail
    from toolfold.tools.tool import Tool


_TOO_MUCH_PAUSED = Problem(
    kind="memory",
    message="paused programs held too much memory, and this one cannot be replayed; hold less, or use no threads",
)


class _Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants of one execution."""

    outside: Sequence[ToolSpec] = ()
    hidden: Collection[str] = ()
    files: Sequence[File] = ()
    limits: Limits
    on_call: Callable[[CallRecord], None] | None = None
    rerun_of: str = ""
    repeat: Collection[str] | None = None
    session: Session | None = None
    can_pause: bool = False
    tenant: str = ""
    execution_id: str = ""
    expires_at: float = 0.0
    is_strict: bool = False
    is_durable: bool = False


class Runtime:
    """Runs programs. Enter it first; leaving it ends every guest. What the ledger keeps can be resumed elsewhere.

    Args:
        tools: What programs may call: functions, or `Tool` objects of any source.
        engine: `auto`, `process`, `monty`, the name of an engine that another distribution registers, or an `Engine`.
        engine_options: Options of an engine that is given by name; those of the process engine are `isolation`, `warm`,
            `host_libraries` and `accept_no_isolation`.
        limits: For programs that are given none of their own.
        ledger: Where executions are kept; by default in memory, so that they end with this object.
        policy: Which tools may be called, and which only after asking.
        approve: Answers for tools that the policy asks for; without it `start` pauses for them.
        steps: The router's wrappers instead of the usual ones, which are made from the policy.
        session_files: Where sessions keep their files; by default in memory.
        entry_name: What the door calls its way in, for messages.
        may_ask: Any tool may turn out to need an answer of the outside while it is served (`CallContext.approve`),
            so each program that is started can pause, and is kept so that it can be replayed.
        observer: Told of what happens while it happens; by default the log, and OpenTelemetry if it is there.
        before_files: Asked before an execution's files are kept for its session; raises `Fenced` where another process
            may have the execution. The ledger fences its own records, a folder cannot.
        paused_limits: How much memory the guests of paused executions may hold, per tenant and in all; beyond it the
            oldest end, and are replayed when they go on.
        type_check: Have Monty's type checker look at each program before it runs, which takes some milliseconds;
            by default where programs run on Monty. Needs `toolfold[monty]` on any engine.
    """

    def __init__(
        self, tools: Iterable[Tool | Callable[..., Any]] = (), *, engine: str | Engine = "auto",
        engine_options: Mapping[str, Any] | None = None, limits: Limits | None = None,
        ledger: Ledger | None = None, policy: Policy | None = None, approve: Approve | None = None,
        steps: Sequence[Wrapper] | None = None, session_files: Store | None = None,
        session_limits: SessionLimits | None = None, entry_name: str = "", observer: Observer | None = None,
        may_ask: bool = False, before_files: Callable[[str], Awaitable[None]] | None = None,
        type_check: bool | None = None, paused_limits: PausedLimits | None = None, isolation: str | None = None,
        warm: int | None = None, accept_no_isolation: bool | None = None, host_libraries: bool | None = None,
    ) -> None:  # fmt: skip
        self._limits = limits or Limits()
        session_limits = session_limits or SessionLimits()
        self._policy = policy or Policy()
        self._may_ask = may_ask
        self._before_files = before_files
        self._type_check = type_check
        self._types: TypeChecker | None = None
        self._index: Index | None = None
        self._large_checks = LargeChecks()
        self._paused_memory = PausedMemory(paused_limits or PausedLimits())
        self._leaving: set[asyncio.Task[None]] = set()
        self._steps = wrappers(policy=self._policy) if steps is None else steps
        self.replace_tools(tools)
        engine_options = with_old_keywords(
            engine, engine_options, isolation=isolation, warm=warm, accept_no_isolation=accept_no_isolation,
            host_libraries=host_libraries,
        )  # fmt: skip
        settings = EngineSettings(
            limits=self._limits, max_kept_guests=session_limits.max_guests,
            max_kept_bytes=session_limits.max_guest_bytes,
        )  # fmt: skip
        self._engine: Engine = chosen_engine(engine, engine_options, settings)
        self._ledger: Ledger = ledger if ledger is not None else MemoryLedger()
        self._observer: Observer = observer if observer is not None else usual_observer()
        self._context = CallContext(entry_name=entry_name, approve=approve)
        self._executions: dict[str, Execution] = {}
        self.sessions = Sessions(self._engine.end_session, store=session_files, limits=session_limits)

    async def __aenter__(self) -> Runtime:
        await self._engine.__aenter__()
        forks.watch(self)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if forks.is_inherited(self):
            return
        for execution in tuple(self._executions.values()):
            await self._close(execution)
        self.sessions.close_guests()
        if self._types is not None:
            await self._types.close()
        await self._router.catalog.close()
        await self._engine.__aexit__(*exc)

    def disown(self) -> None:
        """In a forked child: guests, ledger and connections of tools are the parent's."""
        forks.inherit(self)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What programs may call."""
        return self._specs

    @property
    def executions(self) -> tuple[str, ...]:
        """Ids of those that run or are paused here."""
        return tuple(self._executions)

    @property
    def direct_tools(self) -> tuple[ToolSpec, ...]:
        """What may be called one by one, with `call`."""
        specs = self._router.catalog.specs if self._has_tools else ()
        return tuple(spec for spec in specs if spec.allowed_callers != "code")

    async def preload(self, library_set: LibrarySet) -> None:
        """Have guests with these libraries wait for programs, where the engine can."""
        stocked = self._engine.capabilities.stocked
        if stocked is not None:
            await stocked.preload(library_set)

    async def guests(self) -> Guests:
        """How many there are now, and what they hold; none where the engine cannot tell."""
        stocked = self._engine.capabilities.stocked
        return Guests() if stocked is None else await stocked.guests()

    def replace_tools(self, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        """Other tools from the next execution on; those that run or are paused here keep theirs.

        Raises:
            UsageError: two tools have one name; nothing has changed then.
        """
        catalog = Catalog(as_tool(tool) for tool in tools)
        self._index = None
        self._has_tools = len(catalog) > 0
        if catalog.get(SEARCH_SPEC.name) is None:
            # Also where there is nothing to find yet: a caller may bring tools of its own.
            catalog = catalog.with_tools([search_tool(self._search_index)])
        specs = tuple(spec for spec in catalog.specs if spec.allowed_callers != "direct") if self._has_tools else ()
        self._checker = Checker(specs)
        self._specs = specs
        self._router = Router(catalog, wrappers=self._steps)
        self._asks = any(self._policy.asks(spec) for spec in specs)

    def search(self, query: str, *, limit: int = 8, detail: Detail = "signature") -> list[dict[str, Any]]:
        """Tools by what they do, best first; programs have the same as `search_tools`."""
        return [describe(hit.spec, detail) for hit in self._search_index().search(query, limit)]

    def _search_index(self) -> Index:
        # On first use: 10,000 tools take half a second.
        if self._index is None:
            self._index = Index([spec for spec in self._specs if spec.name != SEARCH_SPEC.name])
        return self._index

    async def run(
        self, text: str, *, files: Sequence[File] = (), limits: Limits | None = None, rerun_of: str = "",
        session: str = "", keep_names: bool = False, on_call: Callable[[CallRecord], None] | None = None,
        tenant: str = "", repeat: Collection[str] | None = None, hidden: Collection[str] = (),
    ) -> Outcome:  # fmt: skip
        """A program, to its end.

        `rerun_of` names an earlier execution: calls that it made too get the replies they got there. One that it began
        without a reply fails, unless its tool is safe to call twice or named in `repeat`.
        The files of `session` are in the data folder, and what the program leaves there is kept;
        with `keep_names` its names are kept, too, for the next program of the session.
        `tenant` is on record with the execution, and tools are told of it.
        `hidden` names tools that this program does not know of.
        """
        wish = _Wish(
            hidden=hidden,
            files=files,
            limits=limits or self._limits,
            on_call=on_call,
            rerun_of=rerun_of,
            repeat=repeat,
            session=self.sessions.open(session, keep_names=keep_names) if session else None,
            tenant=tenant,
            is_strict=self._ledger.is_lasting,
        )
        step = await self._begin(text, wish)
        assert isinstance(step, Outcome), "only `start` pauses"
        return step

    async def start(
        self, text: str, *, tools: Sequence[ToolSpec] = (), files: Sequence[File] = (), limits: Limits | None = None,
        session: str = "", keep_names: bool = False, on_call: Callable[[CallRecord], None] | None = None,
        tenant: str = "", execution_id: str = "", rerun_of: str = "", repeat: Collection[str] | None = None,
        durable: bool = False, expires_at: float = 0.0, hidden: Collection[str] = (),
    ) -> Paused | Outcome:  # fmt: skip
        """A program that may also call `tools`, which only the caller can answer, with `resume`.

        `rerun_of` and `repeat` are as in `run`, up to the first pause that is resumed elsewhere.
        `execution_id` is for whoever must find the execution again without its answer; nobody else may guess it.
        With `durable` its start is in the ledger before the program runs and its outcome before it is returned, so that
        `resume` goes on with it after a kill at any moment. `expires_at` is on record with it.
        """
        wish = _Wish(
            outside=tools,
            hidden=hidden,
            files=files,
            limits=limits or self._limits,
            on_call=on_call,
            session=self.sessions.open(session, keep_names=keep_names) if session else None,
            can_pause=bool(tools) or ((self._asks or self._may_ask) and self._context.approve is None),
            tenant=tenant,
            execution_id=execution_id,
            rerun_of=rerun_of,
            repeat=repeat,
            expires_at=expires_at,
            is_durable=durable,
        )
        return await self._begin(text, wish)

    async def resume(
        self, execution_id: str, replies: Sequence[Reply] = (), *, decisions: Mapping[int, Decision] | None = None
    ) -> Paused | Outcome:
        """Go on with some or all of the open calls answered or decided; also after a restart of this process."""
        execution = self._executions.get(execution_id)
        if execution is None:
            past, execution = await self._revive(execution_id)
            step = await self._open(execution)
            replies = [reply for reply in replies if past.given_to(reply.call_id) is None]
            decisions = {key: value for key, value in (decisions or {}).items() if past.given_to(key) is None}
            if isinstance(step, Outcome):
                return step
        if not replies and not decisions:
            paused = await execution.pause()
            if paused is None:
                return await self._guarded(execution)
            self._hand_back(execution)
            return paused
        try:
            await execution.accept(replies, decisions or {})
        except asyncio.CancelledError:
            await self._close(execution)  # only the ledger knows whether they are taken: the next try asks it
            raise
        self._paused_memory.remove(execution_id)
        if execution.session is not None:
            self.sessions.go_on(execution.session)
        return await self._guarded(execution)

    async def call(self, name: str, arguments: Mapping[str, Value], *, idempotency_key: str | None = None) -> Reply:
        """One direct call, through the same router as a program's; the same key twice calls once."""
        call = Call(id=0, tool=name, arguments=arguments)
        context = self._context
        if idempotency_key is not None:
            context = msgspec.structs.replace(context, idempotency_key=idempotency_key)
        return await self._router.serve(call, caller="direct", context=context)

    async def cancel(self, execution_id: str) -> Outcome | None:
        """End an execution, running or paused; unknown ids are ignored, so that a cancel can race the end.

        The outcome of one that was paused; of one that runs, whoever waits for it gets it.
        """
        execution = self._executions.get(execution_id)
        if execution is None:
            return None
        if execution.is_paused:
            return await self._give_up(execution)
        execution.stop("cancelled")
        return None

    async def release(self, execution_id: str) -> None:
        """Let go of the guest of a paused execution; the ledger has all of it, and `resume` replays it."""
        execution = self._executions.get(execution_id)
        if execution is not None and execution.is_paused:
            await self._close(execution)

    async def abandon(self, execution_id: str) -> None:
        """End the guest of an execution that another process goes on with; nothing of it is written from here."""
        execution = self._executions.get(execution_id)
        if execution is None:
            return
        if execution.is_paused:
            await self._close(execution)
        else:
            execution.lose()

    def suspend(self, execution_id: str) -> None:
        """End the guest of an execution that runs and leave its record open: the host stops, and `resume` goes on."""
        execution = self._executions.get(execution_id)
        if execution is not None and not execution.is_paused:
            execution.lose(refusals.suspended(execution_id))

    async def expire(self, execution_id: str) -> None:
        """As `cancel`, at a deadline of the caller's own that counts paused time: the outcome is a timeout."""
        execution = self._executions.get(execution_id)
        if execution is None:
            return
        if execution.is_paused:
            await self._give_up(execution, "timeout")
        else:
            execution.time_out()

    async def recorded(self, execution_id: str) -> Recorded | None:
        """What is on record of an execution, whichever process holds it; `None` if nothing is."""
        history = await self._ledger.load(execution_id)
        return None if history is None else recorded(history)

    async def end_recorded(self, execution_id: str, status: Status = "cancelled") -> bool:
        """End an execution that no process holds; false if one does, or it has ended already."""
        return await end_recorded(self._ledger, execution_id, status)

    def standing_clock(self, execution_id: str) -> AbstractContextManager[None]:
        """The execution's wall clock stands still while this is entered: a person is asked in the course of a call."""
        execution = self._executions.get(execution_id)
        return nullcontext() if execution is None else execution.clock.standing()

    def put_clock_back(self, execution_id: str, seconds: float) -> None:
        """So much is left of the wall clock of a paused execution: a replay is faster than the program was."""
        execution = self._executions.get(execution_id)
        if execution is not None and execution.is_paused:
            execution.clock.put_back(seconds)

    # the flow

    async def _begin(self, text: str, wish: _Wish) -> Paused | Outcome:
        specs = self._granted(wish) if wish.outside or wish.hidden else self._specs
        if wish.session is None:
            forewarned = self._engine.capabilities.forewarned
            if forewarned is not None:  # a guest can make the program ready while it is being checked
                forewarned.expect(text, specs, wish.limits)
        else:
            await self.sessions.enter(wish.session)
            if wish.session.names and not self._engine.has_session(wish.session.id):
                wish.session.names.clear()  # its guest had to make room for others
        try:
            program = await self._check(text, specs, wish)  # program text -> check
            if not isinstance(program, Problem):
                program = await self._type_problem(program, specs, wish) or program
            if isinstance(program, Problem):
                outcome = self._rejected(program, text)
                self._drop(wish)
                return outcome
            rerun = Rerun(await self._history(wish.rerun_of), wish.repeat) if wish.rerun_of else None
            # Names that live in a guest are gone with it, so a session that keeps them cannot be replayed.
            is_taped = (wish.can_pause or wish.is_durable) and not (wish.session and wish.session.keeps_names)
            earlier = await earlier_output(program.text, self._ledger, wish.tenant)
            if earlier:
                wish = msgspec.structs.replace(wish, files=(*earlier, *wish.files))
            begun = self._begun(program, specs, wish, is_strict=is_taped or wish.is_strict)
        except BaseException:
            self._drop(wish)
            raise
        tape = Taped() if is_taped else None
        execution = self._execution(
            begun, tape, wish.can_pause, wish.session, on_call=wish.on_call, rerun=rerun, is_durable=wish.is_durable
        )
        return await self._open(execution)

    async def _advance(self, execution: Execution) -> Paused | Outcome:
        """Events of the guest, calls to the router, replies back, outcome."""
        execution.clock.start()
        try:
            async for event in execution.events():  # engine
                match event:
                    case Called():  # tool call -> router -> reply -> program
                        for call in event.calls:
                            execution.serve(call)
                    case Printed() | Taped():
                        execution.keep(event)
                    case Waiting():
                        if execution.waits_for_the_outside(event.replies_seen):
                            paused = await execution.pause()
                            if paused is not None:
                                self._hand_back(execution)
                                return paused
                    case Ended() | Died():
                        last = event
                        break
            else:
                last = Died("the guest ended without a last event")
        finally:
            execution.clock.stop()
        if isinstance(last, Died):
            await self._close(execution)
            raise EngineCrashed(last.detail, started=execution.started)
        return await self._finish(execution, last)

    # its parts

    def _hand_back(self, execution: Execution) -> None:
        if execution.session is not None:
            self.sessions.pause(execution.session, execution.id)

    def _granted(self, wish: _Wish) -> tuple[ToolSpec, ...]:
        """Own tools and the caller's; among the latter alone there is also something to search."""
        outside = [spared_spec(spec) for spec in wish.outside]
        if self._specs or any(spec.name == SEARCH_SPEC.name for spec in outside):
            return (*(spec for spec in self._specs if spec.name not in wish.hidden), *outside)
        return (*outside, SEARCH_SPEC)

    async def _check(self, text: str, specs: Sequence[ToolSpec], wish: _Wish) -> Program | Problem:
        known = frozenset(wish.session.names) if wish.session is not None else frozenset()
        if len(text) >= LARGE_TEXT_CHARACTERS:
            return await self._large_checks.check(text, specs, limits=wish.limits, known_names=known)
        checker = Checker(specs) if wish.outside or wish.hidden else self._checker
        checked = checker.check(text, limits=wish.limits, known_names=known, installed=self._modules)
        if isinstance(checked, Problem) and checked.kind == "import" and self._modules is not None:
            own = self._own_modules(wish)  # looked for only now: most programs import none
            if own:
                installed = self._modules | own
                checked = checker.check(text, limits=wish.limits, known_names=known, installed=installed)
        return checked

    def _own_modules(self, wish: _Wish) -> frozenset[str]:
        """Modules among the files that the program is given."""
        kept = self.sessions.listed(wish.session.id) if wish.session is not None else ()
        names = [*(file.name for file in wish.files), *(file.name for file in kept)]
        return frozenset(name.removesuffix(".py").partition("/")[0] for name in names if name.endswith(".py"))

    @cached_property
    def _modules(self) -> frozenset[str] | None:
        return self._engine.capabilities.modules

    async def _type_problem(self, program: Program, specs: Sequence[ToolSpec], wish: _Wish) -> Problem | None:
        is_wanted = self._engine.capabilities.checks_types if self._type_check is None else self._type_check
        if not is_wanted:
            return None
        if self._types is None:
            from toolfold.engines.monty import type_checker  # noqa: PLC0415  # start-up time

            self._types = type_checker()
        known = frozenset(wish.session.names) if wish.session is not None else frozenset()
        return await self._types.problem(program.text, specs, known_names=known)

    def _drop(self, wish: _Wish) -> None:
        """The program will not run."""
        if wish.session is not None:
            self.sessions.leave(wish.session)
        else:
            self._forget()

    def _forget(self) -> None:
        """Tell the engine that the program it was forewarned of does not come."""
        forewarned = self._engine.capabilities.forewarned
        if forewarned is not None:
            forewarned.forget()

    def _rejected(self, problem: Problem, text: str) -> Outcome:
        return Outcome(
            execution_id=secrets.token_hex(8),
            status="rejected",
            problem=problem,
            engine=self._engine.name,
            isolation=self._engine.isolation,
            context_saved=context_saved((), text=text, shown_bytes=len(str(problem).encode(errors="replace"))),
        )

    def _begun(self, program: Program, specs: tuple[ToolSpec, ...], wish: _Wish, *, is_strict: bool) -> Begun:
        files: tuple[File, ...] = ()
        if wish.session is not None or wish.files:
            kept = self.sessions.files(wish.session.id) if wish.session is not None else ()
            files = tuple({file.name: file for file in (*kept, *wish.files)}.values())
        drawn = os.urandom(12)
        return Begun(
            execution_id=wish.execution_id or drawn[:8].hex(),
            program=program,
            tools=specs,
            outside=tuple(spec.name for spec in wish.outside),
            limits=wish.limits,
            files=files,
            brought=tuple(file.name for file in wish.files) if wish.files else (),
            seed=int.from_bytes(drawn[8:]),
            engine=self._engine.name,
            isolation=self._engine.isolation,
            tenant=wish.tenant,
            session=wish.session.id if wish.session else "",
            rerun_of=wish.rerun_of,
            began_at=time.time(),
            expires_at=wish.expires_at,
            is_strict=is_strict,
        )

    def _execution(
        self, begun: Begun, tape: Taped | None, can_pause: bool, session: Session | None, **options: Any
    ) -> Execution:
        asked = frozenset(spec.name for spec in begun.tools if self._policy.asks(spec)) if self._asks else frozenset()
        execution = Execution(
            begun, tape=tape, can_pause=can_pause, engine=self._engine, router=self._router, ledger=self._ledger,
            observer=self._observer, context=self._context, asked=asked, session=session, may_ask=self._may_ask,
            **options,
        )  # fmt: skip
        self._executions[begun.execution_id] = execution
        execution.on_frozen = self._stands_still
        return execution

    def _stands_still(self, execution: Execution, held_bytes: int) -> None:
        for execution_id in self._paused_memory.add(execution.id, execution.begun.tenant, held_bytes):
            task = asyncio.create_task(self._let_go(execution_id))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _let_go(self, execution_id: str) -> None:
        execution = self._executions.get(execution_id)
        if execution is None or not execution.is_paused:
            return
        if execution.can_be_replayed:
            await self._close(execution)
        else:
            await self._give_up(execution, "limit", _TOO_MUCH_PAUSED)

    async def _open(self, execution: Execution) -> Paused | Outcome:
        try:
            await execution.open()
        except BaseException:
            await self._close(execution)  # nothing ran, so there is nothing to put on record
            self._forget()
            raise
        return await self._guarded(execution)

    async def _guarded(self, execution: Execution) -> Paused | Outcome:
        """Go on; whatever goes wrong on the way, nothing of the execution stays behind."""
        try:
            return await self._advance(execution)
        except asyncio.CancelledError:
            await self._close(execution)
            if not execution.is_settled:
                await self._give_up(execution)
            raise
        except (Fenced, LedgerFailed) as error:
            await self._close(execution)
            # Another one: the ledger gives the same to all who waited for it.
            failure = type(error)(*error.args)
            failure.started = execution.started
            raise failure from error
        except BaseException:
            await self._close(execution)
            raise

    async def _revive(self, execution_id: str) -> tuple[Past, Execution]:
        """Take over an execution that another process paused, to replay it."""
        history = await self._history(execution_id)
        _refuse_ended(history)
        if history.begun.engine != self._engine.name:
            raise UsageError(
                f"execution {execution_id!r} began on the {history.begun.engine!r} engine, this is "
                f"{self._engine.name!r}; resume it where the same engine runs"
            )
        epoch = await self._ledger.takeover(execution_id)
        history = await self._history(execution_id)  # again: the other one may have written until it was fenced
        _refuse_ended(history)
        past = Past(history, await snapshot_of(history, self._ledger, self._engine.capabilities.snapshot_version))
        session = self.sessions.open(history.begun.session) if history.begun.session else None
        if session is not None:
            await self.sessions.enter(session)
        return past, self._execution(history.begun, past.tape, True, session, past=past, epoch=epoch, is_durable=True)

    async def _history(self, execution_id: str) -> History:
        history = await self._ledger.load(execution_id)
        if history is None:
            raise UsageError(f"no execution {execution_id!r} in the ledger; it was cancelled, or never was")
        return history

    async def _finish(self, execution: Execution, last: Ended) -> Outcome:
        notes: tuple[str, ...] = ()
        deleted: tuple[str, ...] = ()
        if isinstance(execution.failure, (Fenced, LedgerFailed)):
            raise execution.failure  # its record stays open: another process has it, or it is tried again
        if execution.session is not None:
            if self._before_files is not None:
                await self._before_files(execution.id)
            if execution.begun.files or last.files:  # in a thread: another process may have its turn of the folder
                notes = await asyncio.to_thread(self.sessions.update, execution.session.id, execution.begun, last)
            if not notes:  # else the session is as it was
                deleted = tuple(file.name for file in execution.begun.files if file.name in last.deleted)
            if execution.session.keeps_names:
                execution.session.names |= bound_names(execution.begun.program.text)
        await self._close(execution)
        return await execution.finish(last, notes, deleted)

    async def _give_up(
        self, execution: Execution, status: Status = "cancelled", problem: Problem | None = None
    ) -> Outcome:
        await self._close(execution)
        return await execution.finish(Ended(status=status, problem=problem))

    async def _close(self, execution: Execution) -> None:
        if self._executions.get(execution.id) is not execution:
            return
        del self._executions[execution.id]
        self._paused_memory.remove(execution.id)
        await execution.close()
        if execution.session is not None:
            if execution.session.keeps_names and not self._engine.has_session(execution.session.id):
                execution.session.names.clear()
            self.sessions.leave(execution.session)


def _refuse_ended(history: History) -> None:
    if history.state == "ended":
        raise UsageError(f"execution {history.begun.execution_id!r} has ended; there is nothing to resume")


def run_sync(text: str, *, tools: Iterable[Tool | Callable[..., Any]] = (), **options: Any) -> Outcome:
    """Run one program from code that is not async; `options` are those of `Runtime`."""

    async def once() -> Outcome:
        async with Runtime(tools, **options) as runtime:
            return await runtime.run(text)

    return asyncio.run(once())
