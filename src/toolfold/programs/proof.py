"""Proof of a saved program: made from the record of a run, and tested against that record without calling any tool."""

from __future__ import annotations

import weakref
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from toolfold.engines.base import BorrowedEngine
from toolfold.errors import ToolArgumentsInvalid, ToolRefused, UsageError
from toolfold.execution.recorded_history import call_key, history_of
from toolfold.execution.request import RuntimeSettings
from toolfold.ledger.base import CallEntry, ExecutionFilter, ExecutionHistory, Ledger, ReplyEntry
from toolfold.models import Call, Media, Outcome, ProgramOptions, ToolSpec, Value
from toolfold.programs.library import ProgramFolders
from toolfold.programs.parameters import check_secrets, propose_parameters, with_parameters
from toolfold.programs.saved_program import ProgramRecord, RecordedCall, SavedProgram, check_name, fingerprint
from toolfold.runtime import Runtime
from toolfold.tools.arguments import argument_check
from toolfold.tools.reply_shapes import merge_reply_shapes, schema_of, shape_of_reply
from toolfold.tools.tool import CallContext, Tool

if TYPE_CHECKING:
    from toolfold.programs.parameters import Proposal
    from toolfold.tools.catalog import Catalog
    from toolfold.tools.policy import Policy

_SHOWN: Final = 160
_LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of a test of one program."""

    name: str
    version: int
    problems: tuple[str, ...] = ()
    """One line each, with what to do; none for a program that its record proves."""


async def save(
    runtime: Runtime, execution_id: str, name: str, *, description: str = "",
    parameters: Mapping[str, Value] | Sequence[str] = (), tenant: str = "", proposed: bool = False,
) -> SavedProgram:  # fmt: skip
    """Save the program of a finished execution, with the record of it.

    Args:
        runtime: Made with a library: `programs` in the config, or `RuntimeSettings(programs=ProgramLibrary(...))`.
        execution_id: On record in the runtime's ledger.
        name: What it is called by.
        description: What it does, for whoever looks for it.
        parameters: Names of literals that were passed to tools, or the literal that each name replaces.
        tenant: Whose program it is; empty for one that all tenants share.
        proposed: Keep a proposal, which nobody can call until it is accepted.

    Raises:
        UsageError: There is no such execution, it did not finish, has a secret, or does something else when it is
            called with the recorded arguments.
    """
    library = library_of(runtime)
    check_name(name)
    history = await history_of(runtime.executions.ledger, execution_id)
    start = history.start_record
    if start.tenant != tenant and tenant:
        raise UsageError(f"no execution {execution_id!r} in the ledger; it was cancelled or never existed")
    _check_kind(history)
    _check_collision(runtime, name)
    text, schemas, arguments = with_parameters(start.program.text, start.tools, parameters)
    record = _record_of(history, text, arguments)
    places = {f"the reply to call {call.id} of {call.tool}": call.value for call in record.calls}
    places |= {f"call {call.id} of {call.tool}": call.arguments for call in record.calls}
    check_secrets(start.program.text, record.tools, places)
    program = SavedProgram(
        name=name, text=text, description=description or start.title, parameters=schemas,
        returns=_returns(record.value), tools={spec.name: fingerprint(spec) for spec in record.tools},
        presets=start.program.preset_names, libraries=start.program.library_set,
    )  # fmt: skip
    if problems := await _replay(runtime, program, record):
        call = f"called with {dict(arguments)!r}, it differs from its record"
        raise UsageError(f"{name!r} was not saved: {call}: {'; '.join(problems[:2])}")
    return library.write(program, record, tenant, proposed=proposed)


async def proposals_of(runtime: Runtime, execution_id: str) -> list[Proposal]:
    """The literals of an execution's program that could become parameters."""
    start = (await history_of(runtime.executions.ledger, execution_id)).start_record
    return propose_parameters(start.program.text, start.tools)


async def verify(runtime: Runtime, names: Sequence[str] = (), *, tenant: str = "", live: bool = False) -> list[Verdict]:
    """Test programs, by default all, against their records. With `live`, tools that only read are called, else none."""
    library = library_of(runtime)
    programs = [library.get(name, tenant) for name in names] if names else library.programs(tenant)
    return [
        Verdict(
            name=program.name, version=program.version, problems=tuple(await _problems(runtime, program, tenant, live))
        )
        for program in programs
    ]


async def rerecord(runtime: Runtime, name: str, *, tenant: str = "") -> SavedProgram:
    """Run a program for real with the arguments of its record, and keep that run as the record that proves it.

    Raises:
        UsageError: It did not finish.
    """
    library = library_of(runtime)
    program, (record, _) = library.get(name, tenant), library.record(name, tenant)
    # Its own text, not a call of the tool: that may be withheld.
    lines = "".join(f"{key} = {value!r}\n" for key, value in record.arguments.items())
    outcome = await runtime.run(lines + program.text, options=ProgramOptions(title=name, tenant=tenant))
    if outcome.status != "finished":
        raise UsageError(f"{name!r} did not finish: {outcome.problem}")
    await runtime.executions.ledger.flush(outcome.execution_id)
    history = await history_of(runtime.executions.ledger, outcome.execution_id)
    new = _record_of(history, program.text, record.arguments, outcome)
    tools = {spec.name: fingerprint(spec) for spec in new.tools}
    program = SavedProgram(
        name=name, text=program.text, description=program.description, parameters=program.parameters,
        returns=_returns(new.value), tools=tools, presets=program.presets, libraries=program.libraries,
    )  # fmt: skip
    if problems := await _replay(runtime, program, new):
        raise UsageError(f"{name!r} does something else each time: {problems[0]}")
    return library.write(program, new, tenant)


class ProgramLibrary(ProgramFolders):
    """Saved programs of a runtime, with the tool by which models propose more, where they may."""

    def bind(self, runtime: Runtime, /) -> None:
        """A runtime begins to offer these programs."""
        self._runtime = weakref.ref(runtime)

    def tools(self, catalog: Catalog, policy: Policy, tenant: str = "") -> Iterator[Tool]:
        """The programs that can run with these tools under this policy, and `save_program`."""
        yield from super().tools(catalog, policy, tenant)
        runtime = self._runtime()
        if self.models_may != "nothing" and runtime is not None and catalog.get(SAVE_SPEC.name) is None:
            yield save_tool(runtime, self)


def library_of(runtime: Runtime) -> ProgramLibrary:
    """The library that a runtime was made with.

    Raises:
        UsageError: It has none.
    """
    if not isinstance(runtime.catalog.programs, ProgramLibrary):
        raise UsageError("no folder for saved programs; name one in the config, as in programs: {folders: [programs]}")
    return runtime.catalog.programs


# --- records -------------------------------------------------------------------------------------


def _check_kind(history: ExecutionHistory) -> None:
    start, outcome = history.start_record, history.outcome
    if outcome is None or outcome.status != "finished":
        status = history.state if outcome is None else outcome.status
        raise UsageError(f"execution {start.execution_id!r} is {status}; only a program that finished can be saved")
    if start.is_direct or start.program.language != "python":
        kind = "one direct call" if start.is_direct else f"a {start.program.language} program"
        raise UsageError(f"execution {start.execution_id!r} is {kind}; only a Python program can be saved")
    if history.is_full:
        raise UsageError(
            f"calls are missing from the record of execution {start.execution_id!r}; run the program again"
        )


def _check_collision(runtime: Runtime, name: str) -> None:
    for spec in runtime.tools:
        if name in (spec.name, spec.python_name, *spec.aliases) and spec.source != "program":
            raise UsageError(f"{name!r} is the name of a tool; choose another name")


def _record_of(
    history: ExecutionHistory, text: str, arguments: Mapping[str, Value], outcome: Outcome | None = None
) -> ProgramRecord:
    start, outcome = history.start_record, outcome or history.outcome
    assert outcome is not None, "it has finished"
    replies = {entry.reply.call_id: entry.reply for entry in history.entries if isinstance(entry, ReplyEntry)}
    calls = {entry.call.id: entry.call for entry in history.entries if isinstance(entry, CallEntry)}
    # A call whose reply came at once may be in its reply alone.
    for entry in history.entries:
        if isinstance(entry, ReplyEntry):
            made = entry.record
            calls.setdefault(made.id, Call(id=made.id, tool=made.name, arguments=made.arguments, within=made.within))
    recorded = []
    for number in sorted(calls):
        call, reply = calls[number], replies.get(number)
        if reply is None:
            raise UsageError(f"call {number} of {call.tool!r} has no reply on record; run the program again")
        if not (_is_json(reply.value) and _is_json(dict(call.arguments))):
            raise UsageError(
                f"call {number} of {call.tool!r} has a file or bytes; a saved program's record holds JSON only"
            )
        recorded.append(RecordedCall(number, call.tool, dict(call.arguments), reply.value, reply.error))
    used = {call.tool for call in recorded}
    value = outcome.value if outcome.value is not None else outcome.stdout or None
    if not _is_json(value):
        raise UsageError("the program's value has a file or bytes; a saved program's record holds JSON only")
    record = ProgramRecord(
        execution_id=start.execution_id, text=text, began_at=start.program.clock or start.began_at, seed=start.seed,
        arguments=arguments, calls=tuple(recorded), value=value,
        tools=tuple(spec for spec in start.tools if spec.name in used),
    )  # fmt: skip
    return ProgramRecord.of_file("", record.to_file())


def _is_json(value: Value) -> bool:
    match value:
        case bytes() | Media():
            return False
        case Mapping():
            return all(map(_is_json, value.values()))
        case list() | tuple():
            return all(map(_is_json, value))
    return True


def _returns(value: Value) -> Mapping[str, Any] | None:
    shape = shape_of_reply(value)
    schema = schema_of(merge_reply_shapes(shape, shape))
    return None if schema is None else {key: item for key, item in schema.items() if key != "description"}


# --- tests ---------------------------------------------------------------------------------------


async def _problems(runtime: Runtime, program: SavedProgram, tenant: str, live: bool) -> list[str]:
    library = library_of(runtime)
    try:
        record, record_hash = library.record(program.name, tenant)
    except UsageError as error:
        return [f"{error}; restore it, or save the program anew"]
    problems = library.problems(program, runtime.tools)
    if record_hash != program.record:
        problems.append(f"its record was changed; restore it, or 'toolfold programs test {program.name} --rerecord'")
    specs = {spec.name: spec for spec in runtime.tools}
    for call in record.calls:
        if call.tool in specs and call.error is None and specs[call.tool].source != "program":
            try:
                argument_check(specs[call.tool])(call.arguments)
            except ToolArgumentsInvalid as error:
                problems.append(f"call {call.id} does not fit any more: {error}; change the program, then --rerecord")
    problems += await _replay(runtime, program, record)
    if live:
        problems += await _changed_shapes(runtime, record, specs)
    return list(dict.fromkeys(problems))


async def _changed_shapes(runtime: Runtime, record: ProgramRecord, specs: Mapping[str, ToolSpec]) -> list[str]:
    """Call for real what only reads, and compare the shape of each reply."""
    problems = []
    for call in record.calls:
        spec = specs.get(call.tool)
        if spec is None or not spec.read_only or spec.source == "program":
            continue
        reply = await runtime.call(call.tool, call.arguments)
        if reply.error != call.error:
            problems.append(f"call {call.id} of {call.tool!r} now gives {_short(reply.error or reply.value)}")
        elif _returns(reply.value) != _returns(call.value):
            now = _short(_returns(reply.value))
            problems.append(f"call {call.id} of {call.tool!r} now replies with another shape: {now}")
    return problems


async def _replay(runtime: Runtime, program: SavedProgram, record: ProgramRecord) -> list[str]:
    """What the program does otherwise than its record, called with the recorded arguments; no tool is called."""
    replies: dict[bytes, deque[RecordedCall]] = {}
    for call in record.calls:
        replies.setdefault(_key(call), deque()).append(call)

    def recorded_tool(spec: ToolSpec) -> Tool:
        async def call(arguments: Mapping[str, Any]) -> Value:
            waiting = replies.get(_key(RecordedCall(0, spec.name, arguments)))
            if not waiting:
                raise ToolRefused(f"{spec.name!r} is not on record with these arguments")
            reply = waiting.popleft()
            if reply.error is not None:
                raise ToolRefused(reply.error)
            return reply.value

        return Tool(spec=replace(spec, allowed_callers="both"), call=call, prepare=dict)

    tools = [recorded_tool(spec) for spec in record.tools if spec.name != program.name]
    settings = RuntimeSettings(
        engine=BorrowedEngine(runtime.executions.engine),
        learn=False,
        telemetry=False,
        steps=(),
        limits=runtime.executions.limits,
    )
    async with Runtime([*tools, program.as_tool()], settings=settings) as replaying:
        text = f"await tools.{program.name}(**{dict(record.arguments)!r})"
        outcome = await replaying.run(text, seed=record.seed, clock=record.began_at)
    return list(_differences(record, outcome))


def _differences(record: ProgramRecord, outcome: Outcome) -> Iterable[str]:
    made = [RecordedCall(call.id, call.name, call.arguments) for call in outcome.calls[1:]]
    if outcome.status != "finished":
        yield f"it ends as {outcome.status}: {outcome.problem.message if outcome.problem else ''}"
    missing = Counter(map(_key, record.calls)) - Counter(map(_key, made))
    extra = Counter(map(_key, made)) - Counter(map(_key, record.calls))
    for call in record.calls:
        if missing[_key(call)] > 0:
            missing[_key(call)] -= 1
            yield f"it does not call {_shown(call)} any more, which is call {call.id} of its record"
    for call in made:
        if extra[_key(call)] > 0:
            extra[_key(call)] -= 1
            yield f"it calls {_shown(call)}, which is not on record"
    if outcome.status == "finished" and outcome.value != record.value:
        yield f"its value is {_short(outcome.value)}; on record is {_short(record.value)}"


def _key(call: RecordedCall) -> bytes:
    return call_key(Call(id=0, tool=call.tool, arguments=call.arguments))


def _shown(call: RecordedCall) -> str:
    return _short(
        f"{call.tool}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})", plain=True
    )


def _short(value: Value, *, plain: bool = False) -> str:
    text = value if plain else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


# --- for models ----------------------------------------------------------------------------------

SAVE_SPEC: Final = ToolSpec(
    name="save_program", python_name="save_program", source="programs",
    description="Save the last program that finished as a tool, to call it by its name in later programs. "
    '`parameters` has a name for each literal that callers choose: {"month": 3}. Call it in a program of its own.',
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Such as monthly_report."},
            "description": {"type": "string", "description": "What it does and returns, in a sentence."},
            "parameters": {"type": "object", "description": "Names, and the literals that they replace."},
            "execution_id": {"type": "string", "description": "Of an earlier program, if it was not the last."},
        },
        "required": ["name", "description"],
        "additionalProperties": False,
    },
)  # fmt: skip


def save_tool(runtime: Runtime, library: ProgramLibrary) -> Tool:
    """The tool with which models propose programs, or save them where the config lets them."""

    async def save_program(arguments: Mapping[str, Any], context: CallContext) -> str:
        tenant = context.tenant
        is_proposal = library.models_may != "save"
        try:
            program = await save(
                runtime,
                arguments.get("execution_id")
                or await last_finished(runtime.executions.ledger, tenant, running=context.execution_id),
                arguments["name"], description=arguments["description"],
                parameters=arguments.get("parameters") or {}, tenant=tenant, proposed=is_proposal,
            )  # fmt: skip
        except UsageError as error:
            raise ToolRefused(str(error)) from error
        names = ", ".join(program.parameters) or "none"
        state = "proposed; it can be called once a person accepts it" if is_proposal else "saved"
        return f"{program.name!r} is {state}; parameters: {names}"

    async def outside(_: Mapping[str, Any]) -> str:
        raise AssertionError("the router calls it within an execution")

    return Tool(spec=SAVE_SPEC, call=outside, call_within=save_program)


async def last_finished(ledger: Ledger, tenant: str = "", *, running: str = "") -> str:
    """The id of the newest program that finished and called a tool.

    Raises:
        UsageError: There is none.
    """
    query = ExecutionFilter(state="ended", status="finished", tenant=tenant)
    for summary in await ledger.search(query, limit=_LOOKED_AT):
        if summary.execution_id == running or not summary.calls:
            continue
        history = await ledger.load(summary.execution_id)
        if history is not None and not history.start_record.is_direct:
            calls = {entry.record.name for entry in history.entries if isinstance(entry, ReplyEntry)}
            if SAVE_SPEC.name not in calls:
                return summary.execution_id
    raise UsageError("no finished program with tool calls is on record; run one first, then save it")
