"""Start of an execution: the tools on offer, the turn of its session, the check, and its plan."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toolfold.engines.base import EngineTools, Order, Preparation, ReplayTape
from toolfold.errors import ToolfoldError, UsageError
from toolfold.events import ProgramRejected
from toolfold.execution.outcome import code_size, context_saved, isolation_of
from toolfold.execution.recorded_history import ReplayHistory, Rerun, history_of, put_on_record, take_over
from toolfold.execution.request import ExecutionPlan, ProgramSource, RunRequest, Services, short
from toolfold.ledger.base import ExecutionFilter, Ledger
from toolfold.models import (
    OWN_SETS,
    File,
    Language,
    Limits,
    Outcome,
    Problem,
    Program,
    RunNames,
    StartRecord,
    ToolSpec,
)
from toolfold.program.check import Checker
from toolfold.prompts.python_stubs import WORDS_ASKED_FOR, asks_for_words
from toolfold.protocol.codec import encode
from toolfold.tools.catalog import Catalog
from toolfold.tools.remote_descriptions import shipment
from toolfold.tools.router import Router, Wrapper
from toolfold.tools.search import SEARCH_SPEC, Detail, Index, describe, search_tool
from toolfold.tools.tool import Tool, avoid_reserved_names

if TYPE_CHECKING:
    from toolfold.check_runner import Checks
    from toolfold.sessions import Session, Sessions
    from toolfold.tools.learned_replies import Learning
    from toolfold.tools.policy import Policy


# ----------------------------------------------------------------------------------------------------
# What the programs of one runtime may call, and how they find it.
#
# Replaced as a whole, never changed: an execution keeps the tools that it began with.


class RuntimeTools:
    """Tools with their checker, router and search, and what calls have shown of them.

    Args:
        router: Serves them instead of one that is made here.

    Raises:
        UsageError: Two tools have one name.
    """

    def __init__(
        self, tools: Iterable[Tool], policy: Policy, steps: Sequence[Wrapper], learning: Learning, *,
        router: Router | None = None, programs: ProgramSource | None = None,
        saved_programs: Callable[[Catalog], Iterable[Tool]] | None = None,
    ) -> None:  # fmt: skip
        self.learning, self.programs = learning, programs
        catalog = Catalog(tools)
        if saved_programs is not None and router is None:
            catalog = catalog.with_tools(saved_programs(catalog))
        self._saved = {tool.spec.name: (tool.spec, tool.needs) for tool in catalog if tool.needs is not None}
        self._has_tools = len(catalog) > 0
        if catalog.get(SEARCH_SPEC.name) is None:
            # Also where there is nothing to find yet: a caller may bring tools of its own.
            catalog = catalog.with_tools([search_tool(lambda _tenant: self.index())])
        specs = catalog.specs if self._has_tools else ()
        self.specs = tuple(spec for spec in specs if spec.allowed_callers != "direct")
        self.repeatable = _repeatable(self.specs)
        self.checker = Checker(self.specs)
        self.router = router if router is not None else Router(catalog, wrappers=steps)
        self.policy = policy
        self._steps = steps
        self.asks = any(policy.asks(spec) for spec in self.specs)
        """Whether some of its tools need a yes."""
        self._index: Index | None = None

    @property
    def direct(self) -> tuple[ToolSpec, ...]:
        """Tools that may be called directly, without a program."""
        specs = self.router.catalog.specs if self._has_tools else ()
        return tuple(spec for spec in specs if spec.allowed_callers != "code")

    def with_saved_texts(self, text: str, tenant: str = "") -> str:
        """A text, followed by those of the saved programs that it mentions, whose tools it may call."""
        return text if self.programs is None else self.programs.with_mentioned(text, tenant)

    def index(self) -> Index:
        """Made on first use: 10,000 tools take half a second."""
        if self._index is None:
            self._index = Index([spec for spec in self.specs if spec.name != SEARCH_SPEC.name])
        return self._index

    def search(self, query: str, *, limit: int = 8, detail: Detail = "signature") -> list[dict[str, Any]]:
        """Tools by what they do, best first; programs have the same as `search_tools`."""
        return [describe(hit.spec, detail) for hit in self.learning.index_now(self.index()).search(query, limit)]

    def granted(self, outside: Sequence[ToolSpec], hidden: Collection[str]) -> tuple[ToolSpec, ...]:
        """Own tools and the caller's; among the latter alone there is also something to search."""
        if not outside and not hidden:
            return self.specs
        if hidden and self._saved:
            hidden = self._with_callers(hidden)
        outside_specs = [avoid_reserved_names(spec) for spec in outside]
        if self.specs or any(spec.name == SEARCH_SPEC.name for spec in outside_specs):
            return (*(spec for spec in self.specs if spec.name not in hidden), *outside_specs)
        return (*outside_specs, SEARCH_SPEC)

    def with_libraries(self, program: Program) -> Program:
        """The program with the libraries of the saved programs that it mentions, which run where it runs."""
        if not self._saved or program.library_set not in OWN_SETS:
            return program
        words = set(re.findall(r"\w+", program.text))
        needed = [needs.libraries for spec, needs in self._saved.values() if spec.python_name in words]
        return replace(program, library_set=max([program.library_set, *needed], key=OWN_SETS.index))

    def _with_callers(self, hidden: Collection[str]) -> Collection[str]:
        """The hidden tools, and the saved programs that call any of them."""
        hidden, count = set(hidden), -1
        while len(hidden) != count:
            count = len(hidden)
            hidden.update(spec.name for spec, needs in self._saved.values() if not needs.tools.isdisjoint(hidden))
        return hidden

    def tools_within(self, name: str) -> frozenset[str]:
        """Names of the tools that a saved program calls."""
        _, needs = self._saved[name]
        return needs.tools

    @property
    def saved_names(self) -> frozenset[str]:
        """Names of the saved programs."""
        return frozenset(self._saved)

    def checker_for(self, specs: tuple[ToolSpec, ...]) -> Checker:
        """The one that is kept, where it knows these very tools."""
        return self.checker if specs is self.specs else Checker(specs)

    def own_tools(self, names: Sequence[str]) -> EngineTools:
        """These tools, for an engine that calls them where its programs are.

        Raises:
            UsageError: One of them cannot be called elsewhere.
        """
        shipped = shipment(names, self.router.catalog, self.policy, self._steps)
        specs = tuple(tool.spec for tool in shipped.tools)
        return EngineTools(specs, encode(shipped), "toolfold.execution.calls:OwnTools")

    def approval_tools(self, specs: Iterable[ToolSpec]) -> frozenset[str]:
        return frozenset(spec.name for spec in specs if self.policy.asks(spec)) if self.asks else frozenset()


class ExecutionPlanner:
    """Planner of executions that are offered one set of tools.

    Args:
        may_ask: Any tool may ask for a yes while it is served.
    """

    def __init__(
        self, offer: RuntimeTools, services: Services, *, sessions: Sessions, checks: Checks, may_ask: bool
    ) -> None:
        self.offer = offer
        self.services = services
        self._sessions = sessions
        self._checks = checks
        self._may_ask = may_ask

    def offering(self, offer: RuntimeTools) -> ExecutionPlanner:
        services = msgspec.structs.replace(self.services, router=offer.router)
        return ExecutionPlanner(offer, services, sessions=self._sessions, checks=self._checks, may_ask=self._may_ask)

    @property
    def asks_outside(self) -> bool:
        """Whether a program may have to pause for a yes, because nobody here gives it."""
        return (self.offer.asks or self._may_ask) and self.services.context.approve is None

    def _granted(self, request: RunRequest) -> tuple[ToolSpec, ...]:
        hidden = request.options.hidden
        if self.offer.saved_names:
            capabilities, language = self.services.engine.capabilities, request.options.language
            if language == "bash" or not capabilities.has_saved_programs:
                hidden = self.offer.saved_names.union(hidden)
        return self.offer.granted(request.outside, hidden)

    async def plan(self, text: str, request: RunRequest) -> ExecutionPlan | Outcome:
        """The plan of a program that passes the check, or the outcome of one that does not.

        With a plan, the program has its turn of its session: whoever does not open it has to close the execution.
        """
        _check_text(text)
        check_names(request.options)
        if request.options.language == "bash":
            return await self._planned_bash(text, request)
        # First: to wake up and compile takes a guest longer than all that the host does until the program starts.
        specs = self._granted(request)
        may_ask = any(map(text.__contains__, WORDS_ASKED_FOR)) and asks_for_words(text)
        help_specs = await self._help_specs(specs, request) if may_ask else specs
        preparation = None
        if request.session is None:
            preparation = self._prepare(text, help_specs, request.limits)
        else:
            await self._sessions.enter(request.session)
            if request.session.names and not self.services.engine.has_session(request.session.id):
                request.session.forget_names()  # its guest had to make room for others
        try:
            session_note = await self._session_note(request.session, request.options.tenant)
            checker = self.offer.checker_for(specs)
            program = None
            if request.options.stdin is None:
                program = self._checks.check_at_once(text, checker, request.limits, _known_names(request))
            if program is None:
                program = await self._check(text, specs, checker, request)
            if isinstance(program, Problem):
                self._drop(request, preparation)
                return await self._rejected(program, text, request, session_note)
            program = self.offer.with_libraries(program)
            if session_note:
                program = replace(program, notes=(*program.notes, session_note))
            return await self._planned(program, help_specs, request, preparation)
        except BaseException:
            self._drop(request, preparation)
            raise

    async def _session_note(self, session: Session | None, tenant: str) -> str:
        """Says that variables are gone on which the program may count: with a guest, or with an earlier process."""
        if session is None or not session.keeps_names:
            return ""
        is_new, session.is_known = not session.is_known, True
        name = session.id.rpartition("/")[2]
        if session.has_lost_names:
            session.has_lost_names = False
            return f"session {name!r} has lost its variables, because its sandbox ended; its files are kept"
        ledger = self.services.ledger
        if not is_new or not ledger.is_lasting:
            return ""
        if not await ledger.search(ExecutionFilter(session=session.id, tenant=tenant), limit=1):
            return ""
        gone = "variables" if self._sessions.listed(session.id) else "variables and files"
        return f"session {name!r} is new in this process: the {gone} of its earlier programs are gone"

    async def _planned_bash(self, text: str, request: RunRequest) -> ExecutionPlan | Outcome:
        """Its syntax is checked by bash itself, in the guest, before anything runs."""
        engine = self.services.engine
        if "bash" not in engine.capabilities.languages:
            place = f"with the isolation {engine.isolation!r}" if engine.name == "process" else "here"
            raise UsageError(f"the engine {engine.name!r} runs no bash programs {place}; see 'toolfold doctor'")
        if request.options.keep_names:
            raise UsageError("keep_names is for Python programs; what a bash program keeps for its session are files")
        specs = self._granted(request)
        if request.session is not None:
            await self._sessions.enter(request.session)
        try:
            program = self.offer.checker_for(specs).check_bash(text, limits=request.limits)
            if isinstance(program, Problem):
                self._drop(request, None)
                return await self._rejected(program, text, request, "")
            return await self._planned(program, specs, request, None)
        except BaseException:
            self._drop(request, None)
            raise

    async def check(self, text: str, request: RunRequest) -> Problem | None:
        """The problem for which a program would be rejected, if any."""
        _check_text(text)
        specs = self._granted(request)
        checker = self.offer.checker_for(specs)
        is_bash = request.options.language == "bash"
        checked = (
            checker.check_bash(text, limits=request.limits)
            if is_bash
            else await self._check(text, specs, checker, request)
        )
        return checked if isinstance(checked, Problem) else None

    async def revival(self, execution_id: str) -> ExecutionPlan:
        """The plan of an execution that another process paused: it is taken over, to be replayed."""
        history, past = await take_over(execution_id, self.services.engine, self.services.ledger)
        session = self._sessions.open(history.start_record.session) if history.start_record.session else None
        if session is not None:
            await self._sessions.enter(session)
        return self._plan(
            history.start_record, past.tape, session, can_pause=True, past=past, epoch=past.epoch, is_durable=True
        )

    async def _help_specs(self, specs: tuple[ToolSpec, ...], request: RunRequest) -> tuple[ToolSpec, ...]:
        """What `help()` tells of the tools: for a program that may ask, also what they were seen to return."""
        await self.services.learning.read(request.options.tenant)
        return tuple(self.services.learning.with_learned_schemas(specs, request.options.tenant))

    def _prepare(self, text: str, specs: tuple[ToolSpec, ...], limits: Limits) -> Preparation | None:
        prepare = self.services.engine.capabilities.prepare
        return None if prepare is None else prepare(text, specs, limits)

    def _drop(self, request: RunRequest, preparation: Preparation | None) -> None:
        if request.session is not None:
            self._sessions.leave(request.session)
        if preparation is not None:
            preparation.discard()

    def _check(
        self, text: str, specs: tuple[ToolSpec, ...], checker: Checker, request: RunRequest
    ) -> Awaitable[Program | Problem]:
        def file_names() -> Iterable[str]:
            saved_files = self._sessions.listed(request.session.id) if request.session is not None else ()
            return [*(file.name for file in request.options.files), *(file.name for file in saved_files)]

        return self._checks.check(
            text, specs, checker=checker, limits=request.limits, known_names=_known_names(request),
            file_names=file_names, has_stdin=request.options.stdin is not None, tenant=request.options.tenant,
        )  # fmt: skip

    async def _rejected(self, problem: Problem, text: str, request: RunRequest, session_note: str) -> Outcome:
        services = self.services
        # The id is for one that runs.
        options = msgspec.structs.replace(request.options, execution_id="", files=())
        request = msgspec.structs.replace(request, options=options, outside=())
        start_record = self._start_record(
            request, Program(text=text, language=options.language), (), is_taped=_is_taped(request)
        )
        outcome = Outcome(
            execution_id=start_record.execution_id,
            status="rejected",
            problem=problem,
            engine=start_record.engine,
            isolation=start_record.isolation,
            hints=(session_note,) if session_note else (),
            context_saved=context_saved(
                (), code_bytes=code_size(text), shown_bytes=len(str(problem).encode(errors="replace"))
            ),
        )
        services.listeners.tell_end(ProgramRejected(outcome.execution_id, text, problem))
        await put_on_record(services.ledger, start_record, outcome)
        return outcome

    async def _planned(
        self, program: Program, specs: tuple[ToolSpec, ...], request: RunRequest, preparation: Preparation | None
    ) -> ExecutionPlan:
        ledger, options, rerun = self.services.ledger, request.options, None
        if options.rerun_of:
            rerun = Rerun(await history_of(ledger, options.rerun_of), options.repeat)
        outputs = await earlier_output(program.text, ledger, options.tenant) if "output-" in program.text else ()
        saved_files = self._sessions.files(request.session.id) if request.session is not None else ()
        is_taped = _is_taped(request)
        start_record = self._start_record(
            request, program, specs, is_taped=is_taped, saved_files=saved_files, outputs=outputs
        )
        return self._plan(
            start_record, ReplayTape() if is_taped else None, request.session, can_pause=request.can_pause,
            options=options, rerun=rerun, is_durable=request.is_durable, preparation=preparation,
        )  # fmt: skip

    def _start_record(
        self, request: RunRequest, program: Program, specs: tuple[ToolSpec, ...], *, is_taped: bool,
        saved_files: Sequence[File] = (), outputs: Sequence[File] = (),
    ) -> StartRecord:  # fmt: skip
        """The start as it goes on record, with the session's files and the earlier output that the text mentions.

        Raises:
            UsageError: there is more for standard input than a program may have.
        """
        options, engine = request.options, self.services.engine
        if options.stdin is not None or options.clock is not None:
            program = _with_input(request, program)
        new_files = (*outputs, *options.files)
        random_bytes = os.urandom(12)
        return StartRecord(
            execution_id=options.execution_id or random_bytes[:8].hex(),
            program=program,
            tools=specs,
            outside=tuple([spec.name for spec in request.outside]) if request.outside else (),
            limits=request.limits,
            # By name: what the caller brings takes the place of what the session has.
            files=tuple({file.name: file for file in (*saved_files, *new_files)}.values())
            if saved_files or new_files
            else (),
            brought=tuple([file.name for file in new_files]) if new_files else (),
            seed=int.from_bytes(random_bytes[8:]) if options.seed is None else options.seed,
            engine=engine.name,
            isolation=isolation_of(program.language, engine.isolation),
            tenant=options.tenant,
            session=request.session.id if request.session else "",
            rerun_of=options.rerun_of,
            began_at=time.time(),
            expires_at=request.expires_at,
            is_strict=is_taped or request.is_strict,
            interface=self.services.interface,
            title=options.title,
            tags=tuple(options.tags),
            user=options.user,
            conversation=options.conversation,
            model=options.model,
        )

    # Any: the other fields of `ExecutionPlan`.
    def _plan(
        self, start_record: StartRecord, tape: ReplayTape | None, session: Session | None, *, can_pause: bool,
        past: ReplayHistory | None = None, rerun: Rerun | None = None, preparation: Preparation | None = None,
        **more: Any,
    ) -> ExecutionPlan:  # fmt: skip
        tools = start_record.tools
        order = Order(
            program=start_record.program,
            tools=tools,
            limits=start_record.limits,
            files=start_record.files,
            session=session.id if session is not None and _shares_names(session, start_record.program.language) else "",
            seed=start_record.seed,
            tape=tape,
            snapshot=past.snapshot.state if past is not None and past.snapshot is not None else b"",
            report_waiting=can_pause,
            # Others compare each call with a record, here, before it is made.
            may_serve=tape is None and rerun is None,
            recorded=past.calls if past is not None and start_record.program.language == "bash" else (),
            preparation=preparation,
        )
        return ExecutionPlan(
            start_record=start_record,
            order=order,
            session=session,
            outside=frozenset(start_record.outside),
            approval_tools=self.offer.approval_tools(tools),
            repeatable_tools=self.offer.repeatable if tools is self.offer.specs else _repeatable(tools),
            may_ask=self._may_ask,
            can_pause=can_pause,
            past=past,
            rerun=rerun,
            **more,
        )


# Any: whatever a caller passes.
def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise UsageError(f"a program is text, as in run('print(1)'); got {type(text).__name__} {short(text)}")


_MOST_TAGS: Final = 20
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")
_NAME_CHARACTERS: Final = 200


def check_names(names: RunNames) -> None:
    if names.tags and not _is_list_of_tags(names.tags):
        raise UsageError(f"tags must be a list of at most {_MOST_TAGS} texts, got {short(names.tags)}")
    # Any: a client may have sent them.
    texts: dict[str, Any] = {
        "title": names.title,
        "user": names.user,
        "conversation": names.conversation,
        "model": names.model,
    }
    for name, value in (*texts.items(), *(("a tag", tag) for tag in names.tags)):
        # Empty, almost always.
        if value and not (isinstance(value, str) and len(value) <= _NAME_CHARACTERS and _NAME.fullmatch(value)):
            raise UsageError(
                f"{name} must be text of at most {_NAME_CHARACTERS} characters in one line, got {short(value)}"
            )


# Any: a client may have sent it.
def _is_list_of_tags(tags: Any) -> bool:
    return isinstance(tags, Sequence) and not isinstance(tags, str | bytes) and len(tags) <= _MOST_TAGS


def _is_taped(request: RunRequest) -> bool:
    """Whether it must be replayable. Names that live in a guest are gone with it, so they exclude a replay."""
    keeps_names = request.session is not None and _shares_names(request.session, request.options.language)
    return (request.can_pause or request.is_durable) and not keeps_names


def _shares_names(session: Session, language: Language) -> bool:
    """Whether a program runs in the guest that the session keeps; a bash program has only its files."""
    return session.keeps_names and language == "python"


def _known_names(request: RunRequest) -> frozenset[str] | None:
    session = request.session
    return frozenset(session.names) if session is not None and session.keeps_names else None


def _with_input(request: RunRequest, program: Program) -> Program:
    options = request.options
    size, most = len((options.stdin or "").encode("utf-8", "surrogatepass")), request.limits.temp_bytes
    if size > most:
        raise UsageError(f"stdin has {size} bytes, more than {most}, the limit of temp_bytes; give it as a file")
    return replace(program, stdin=options.stdin, clock=options.clock)


def _repeatable(specs: Iterable[ToolSpec]) -> frozenset[str]:
    # The call of a saved program only gives its text.
    return frozenset(spec.name for spec in specs if spec.read_only or spec.idempotent or spec.source == "program")


# ----------------------------------------------------------------------------------------------------
# What earlier programs printed, as files for a program that mentions them.
#
# A model that was shown a part of an output is told the name of the whole (`Outcome.output_name`). The ledger has
# it, so nothing is kept for those that are never asked for.

_MENTION: Final = re.compile(r"\boutput-([A-Za-z0-9_-]{8,64})\.txt\b")
_MOST: Final = 4


async def earlier_output(text: str, ledger: Ledger, tenant: str) -> tuple[File, ...]:
    """The outputs that a program's text names, of executions of the same tenant; others are not there."""
    files = []
    for execution_id in list(dict.fromkeys(_MENTION.findall(text)))[:_MOST]:
        try:
            history = await ledger.load(execution_id)
        except ToolfoldError:
            continue  # it cannot be read: to the program that is a file that is not there
        if history is not None and history.outcome is not None and history.start_record.tenant == tenant:
            data = history.outcome.stdout.encode()
            files.append(File(name=f"output-{execution_id}.txt", data=data, mime="text/plain"))
    return tuple(files)
