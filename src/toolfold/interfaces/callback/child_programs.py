"""Child side of the callback extension: programs that wait for their parent, inline ones, saved texts.

The timeout covers the whole execution, including the parent's work. Between two requests of the parent
the execution is paused, and only the deadline here can end it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from pydantic import BaseModel, Field

from toolfold.check_runner import LARGE_TEXT_CHARACTERS, LargeChecks
from toolfold.errors import ReplyUnfit, ToolfoldError, ToolRefused, UsageError
from toolfold.execution.registry import drive, refuse_approvals
from toolfold.interfaces.callback.messages import (
    ForwardedCall,
    Frame,
    OpenCall,
    ResumeResult,
    ToolReply,
    error_json,
    to_json,
)
from toolfold.models import MIB, Call, Json, Limits, Outcome, Paused, Problem, ProgramOptions, Reply, ToolSpec, Value
from toolfold.outcome_views import value_as_json
from toolfold.program.known_names import ANY_TOOL, mentioned_names
from toolfold.runtime import Runtime
from toolfold.service.answer_memory import BoundedMemory
from toolfold.service.executions import ExecutionObserver, ExecutionService, HeldExecution, Step
from toolfold.service.owners import spawn
from toolfold.sources.file_tools import close_folder, open_folder, open_root, replace_file
from toolfold.tools.arguments import bound_schema
from toolfold.tools.router import check_size
from toolfold.tools.sendable_values import is_plain, parse_json
from toolfold.tools.tool import Tool, unique_names

DEFAULT_SECONDS: Final = 30.0
_MAX_UNREAD: Final = 1000
_MAX_UNREAD_BYTES: Final = 16 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackRequest:
    """Arguments of `programmatic_tool_calling`, checked."""

    code: str
    filename: str | None = None
    timeout_seconds: float = DEFAULT_SECONDS
    tools_available: Sequence[str | ListedTool] | None = None
    workspace: Path | None = None
    """Where it is saved, if not in the workspace of all."""
    options: ProgramOptions = field(default_factory=ProgramOptions)
    """Of the program, but for its limits; with a clock, no real time is in the answer."""
    name: str = ""
    """What ids of its calls have in them; by default the id of the execution."""


@dataclass(slots=True)
class _Program:
    """One program, from its first call of a parent's tool to its end."""

    execution: HeldExecution[ResumeResult]
    frame: Frame
    specs: dict[str, ToolSpec]
    end: asyncio.Future[ResumeResult]
    calls: dict[int, ForwardedCall] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.execution.deadline - time.monotonic())


class CallbackExecutions(ExecutionObserver[ResumeResult]):
    """Programs with a parent's tools, on one runtime.

    Args:
        runtime: Open as long as this is used. Tools of its own are offered beside the parent's.
        workspace: Where programs with a file name are saved.
        limits: For every program; its wall clock is the longest that a caller may ask for.
    """

    def __init__(self, runtime: Runtime, *, workspace: Path, limits: Limits | None = None) -> None:
        self._runtime = runtime
        self._workspace = workspace
        self._limits = limits or Limits()
        self._large_texts = LargeChecks()
        self._service: ExecutionService[ResumeResult] = ExecutionService(runtime, clock=time.monotonic, observer=self)
        self._programs: dict[str, _Program] = {}
        self._unread: BoundedMemory[str, ResumeResult] = BoundedMemory(_MAX_UNREAD, _MAX_UNREAD_BYTES)
        """Ends of programs whose time ran out in a pause, for parents that have not asked yet."""
        # Any: a step that its request has left is waited for by nobody.
        self._tasks: set[asyncio.Task[Any]] = set()

    async def begin(self, request: CallbackRequest, *, has_parent: bool = True) -> tuple[str, ResumeResult]:
        """Start a program: its id, and its first calls or its end."""
        deadline = time.monotonic() + request.timeout_seconds
        frame = _frame(request)
        try:
            limits = limits_of(request, self._limits)
            frame = _save(request, frame, request.workspace or self._workspace)
            reserved_names = {name for spec in self._runtime.tools for name in (spec.python_name, *spec.aliases)}
            specs = await parent_specs(request, limits, reserved_names, self._large_texts) if has_parent else ()
            step = await self._runtime.start(request.code, options=request.options, tools=specs, limits=limits)
        except ToolfoldError as error:
            return "", ResumeResult(final=error_json(error, frame), has_failed=True)
        execution_id = step.execution_id
        execution: HeldExecution[ResumeResult] = HeldExecution(
            execution_id=execution_id, deadline=deadline, state="running"
        )
        end = asyncio.get_running_loop().create_future()
        program = _Program(execution, frame, {spec.name: spec for spec in specs}, end)
        if isinstance(step, Paused):
            self._programs[execution_id] = program
            self._service.hold(execution)
        return execution_id, await self._step(program, step)

    async def resume(self, execution_id: str, replies: Sequence[ToolReply]) -> ResumeResult:
        """Hand over replies: the next calls, or the end. Without replies, wait for the end."""
        program = self._programs.get(execution_id)
        if program is None:
            if (result := self._unread.pop(execution_id)) is not None:
                return result
            raise UsageError(f"no execution {execution_id!r} waits for its parent; it has ended or never existed")
        if program.execution.state == "running":
            raise UsageError(f"execution {execution_id!r} is running; wait for the result of the last resume")
        open_replies = _open_replies(program, replies) if program.execution.is_paused else ()
        values = [self._reply(program, number, reply) for number, reply in open_replies]
        if not values:
            result = await asyncio.shield(program.end)
            self._unread.pop(execution_id)
            return result
        self._service.move(program.execution, "resume")
        # In a task of its own: the runtime cannot let go of a `resume` that is cancelled with its request.
        return await asyncio.shield(spawn(self._step(program, self._runtime.resume(execution_id, values)), self._tasks))

    async def cancel(self, execution_id: str) -> None:
        """End a program for whose outcome nobody waits; unknown ids are ignored."""
        program = self._programs.pop(execution_id, None)
        if program is not None:
            await self._service.cancel(program.execution)

    def _reply(self, program: _Program, number: int, reply: ToolReply) -> Reply:
        entry = program.calls[number]
        value = read_reply(entry, reply, program.specs.get(entry.call.name), self._limits.reply_bytes)
        return Reply(call_id=number, value=value, error=entry.error)

    # Steps.

    async def _step(self, program: _Program, step: Step | Paused | Outcome) -> ResumeResult:
        execution_id = program.execution.execution_id
        try:
            step = step if isinstance(step, Paused | Outcome) else await step
            paused = await drive(self._runtime, step, refuse_approvals)
            if isinstance(paused, Outcome):
                return self._finish(program, paused)
            if self._service.get(execution_id) is None:  # it paused at the moment its time ran out
                return self._finish(program, await self._runtime.executions.expire(execution_id))
        except ToolfoldError as error:
            await self._runtime.executions.cancel(execution_id)
            text = error_json(error, program.frame, list(program.calls.values()))
            return self._settle(program, text, "broken")
        except BaseException:
            self._service.move(program.execution, "pause")  # its deadline ends it
            raise
        self._service.pause(program.execution, paused)
        calls = [_forward(program, call) for call in paused.calls if call.id not in program.calls]
        return ResumeResult(calls=calls, seconds_left=program.seconds_left)

    # Ends.

    async def expired(self, execution: HeldExecution[ResumeResult], outcome: Outcome | None) -> None:
        """Keep the end of a program for the parent that it waits for."""
        program = self._programs.get(execution.execution_id)
        if program is not None:
            result = self._finish(program, outcome)
            self._unread.put(execution.execution_id, result, len(result.final or ""))

    def _finish(self, program: _Program, outcome: Outcome | None) -> ResumeResult:
        """Render the end; without an outcome, time ran out and only the record is left."""
        outcome = outcome or Outcome(execution_id=program.execution.execution_id, status="timeout")
        if outcome.status == "timeout" and outcome.problem is None:
            message = f"the program took longer than {program.frame.timeout_seconds:g} s"
            outcome = replace(outcome, problem=Problem(kind="wall_clock", message=message))
        text = to_json(outcome, list(program.calls.values()), program.frame)
        return self._settle(program, text, outcome.status)

    def _settle(self, program: _Program, final: str, status: str) -> ResumeResult:
        self._programs.pop(program.execution.execution_id, None)
        self._service.end(program.execution, status)
        result = ResumeResult(final=final, has_failed=status != "finished")
        program.end.set_result(result)
        return result


def _open_replies(program: _Program, replies: Sequence[ToolReply]) -> Iterator[tuple[int, ToolReply]]:
    """Replies to calls that are open, by the number that the runtime knows; others are ignored."""
    numbers = {entry.call.id: number for number, entry in program.calls.items() if entry.reply is None}
    for reply in replies:
        number = numbers.pop(reply.id, None)
        if number is not None:
            yield number, reply


def _forward(program: _Program, call: Call) -> OpenCall:
    name, arguments = resolve_call(program.specs[call.tool], value_as_json(call.arguments))
    open_call = OpenCall(id=f"call_{program.execution.execution_id}_{call.id}", name=name, arguments=arguments)
    program.calls[call.id] = ForwardedCall(open_call)
    return open_call


def limits_of(request: CallbackRequest, usual: Limits) -> Limits:
    """Limits of one program; `UsageError` if its timeout is none, or too long."""
    seconds, most = request.timeout_seconds, usual.wall_seconds
    if not seconds > 0:
        raise UsageError(f"timeout {seconds!r} is not a number of seconds above 0")
    if seconds > most:
        raise UsageError(f"timeout is {seconds!r}; the most here is {most:g} seconds; nothing was called")
    return replace(usual, wall_seconds=seconds)


def _frame(request: CallbackRequest) -> Frame:
    began = time.perf_counter() if request.options.clock is None else None
    return Frame(timeout_seconds=request.timeout_seconds, began=began)


def _save(request: CallbackRequest, frame: Frame, workspace: Path | None) -> Frame:
    """Save a program that has a file name; `UsageError` if it cannot be saved."""
    if request.filename is None:
        return frame
    assert workspace is not None
    return replace(frame, file_path=save_program(request.code, request.filename, workspace))


async def parent_specs(
    request: CallbackRequest, limits: Limits, reserved_names: Collection[str], large: LargeChecks
) -> tuple[ToolSpec, ...]:
    """The parent's tools that a program may call; `reserved_names` are names of others."""
    if request.tools_available is not None or len(request.code) < LARGE_TEXT_CHARACTERS:
        return grant_tools(request.code, request.tools_available, reserved_names, limits)
    if len(request.code) > limits.program_bytes:
        return ()  # the check says so
    # Nothing comes back from a text that is too much to parse; the check says that, too.
    names_json = await large.ask(mentioned_names, request.code, limits)
    return grant_by_name(msgspec.json.decode(names_json, type=list[str]) if names_json else (), reserved_names)


def read_reply(entry: ForwardedCall, reply: ToolReply, spec: ToolSpec | None, most_bytes: int) -> Value:
    """Record a reply; its value for the program, or `None` with an error in `entry`."""
    entry.reply = reply
    if not reply.parsed:
        entry.error = f"no tool {entry.call.name!r}; the tool executor says: {reply.observation}"
    elif reply.has_error:
        entry.error = f"{entry.call.name!r} failed: {reply.observation}"
    else:
        try:
            check_size(entry.call.name, len(reply.observation.encode("utf-8", "replace")), most_bytes)
            return _value(reply.observation, spec)
        except ReplyUnfit as error:
            entry.error = str(error)
    return None


def _value(observation: str, spec: ToolSpec | None) -> Value:
    """Value of a text: JSON is parsed if it begins like an object or a list, unless the tool returns text."""
    is_text = spec is not None and spec.output_schema is not None and spec.output_schema.get("type") == "string"
    value = observation if is_text else parse_json(observation)
    return value if is_plain(value) else observation


# ----------------------------------------------------------------------------------------------------
# Programs whose parent is this very process: their calls are answered where they are made, without a pause.

Answer: TypeAlias = Callable[[OpenCall], Awaitable[ToolReply]]
AT_ONCE = 64
"""Calls of one program that are answered at the same time; the others wait."""


class InlinePrograms:
    """Programs with a parent's tools, on a runtime that has no others.

    Args:
        runtime: Open as long as this is used, and used by nobody else: its tools are those of the last program.
        limits: For every program; its wall clock is the longest that a caller may ask for.
    """

    def __init__(self, runtime: Runtime, *, limits: Limits | None = None) -> None:
        self._runtime = runtime
        self._limits = limits or Limits()
        self._large_texts = LargeChecks()

    async def run(self, request: CallbackRequest, answer: Answer) -> tuple[str, bool]:
        """Run a program to its end: the JSON of the tool, and whether it failed."""
        frame = _frame(request)
        calls = _InlineCalls(request, answer, self._limits.reply_bytes)
        try:
            limits = limits_of(request, self._limits)
            frame = _save(request, frame, request.workspace)
            specs = await parent_specs(request, limits, (), self._large_texts)
            # Nothing may come in between: what begins next has these tools, and keeps them.
            self._runtime.replace_tools(calls.tools(specs))
            outcome = await self._runtime.run(request.code, options=request.options, limits=limits)
        except ToolfoldError as error:
            return error_json(error, frame, calls.entries), True
        return to_json(outcome, calls.entries, frame), outcome.status != "finished"


class _InlineCalls:
    def __init__(self, request: CallbackRequest, answer: Answer, reply_bytes: int) -> None:
        self.entries: list[ForwardedCall] = []
        self._name = request.name or secrets.token_hex(8)
        self._answer = answer
        self._reply_bytes = reply_bytes
        self._room = asyncio.Semaphore(AT_ONCE)
        self._reply_barrier = _ReplyBarrier() if request.options.clock is not None else None

    def tools(self, specs: Sequence[ToolSpec]) -> list[Tool]:
        return [Tool(spec=spec, call=partial(self._serve, spec), retry="never") for spec in specs]

    async def _serve(self, spec: ToolSpec, arguments: Mapping[str, Value]) -> Value:
        plain: dict[str, Json] = value_as_json(arguments)
        name, call_arguments = resolve_call(spec, plain)
        call = OpenCall(id=f"call_{self._name}_{len(self.entries) + 1}", name=name, arguments=call_arguments)
        entry = ForwardedCall(call)
        self.entries.append(entry)
        answer = self._reply_to(call)
        reply = await (answer if self._reply_barrier is None else self._reply_barrier.wait(answer))
        value = read_reply(entry, reply, spec, self._reply_bytes)
        if entry.error is not None:
            raise ToolRefused(entry.error)  # in its own words
        return value

    async def _reply_to(self, call: OpenCall) -> ToolReply:
        async with self._room:
            return await self._answer(call)


class _ReplyBarrier:
    """Replies to calls that were made at the same time come in the order of the calls, whichever is the first."""

    def __init__(self) -> None:
        self._unanswered = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self, reply: Awaitable[ToolReply]) -> ToolReply:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._unanswered += 1
        try:
            result = await reply
        finally:
            self._unanswered -= 1
            if not self._unanswered:
                waiting, self._waiting = self._waiting, []
                for future in waiting:
                    if not future.done():
                        future.set_result(None)
        await turn
        return result


# ----------------------------------------------------------------------------------------------------
# A program saved under the workspace, where the parent's tools may have put links: none is followed.

FOLDER: Final = ".python_tmp"


def save_program(text: str, filename: str, workspace: Path) -> str:
    """Write the program under a plain file name, else `UsageError`; its path relative to the workspace."""
    name = filename if filename.endswith(".py") else f"{filename}.py"
    if name != os.path.basename(name) or name.startswith(".") or not name.isprintable() or "\\" in name:
        raise UsageError(f"filename {filename!r} is not a plain file name; give one without folders, like 'report.py'")
    try:
        _write(name, text.encode("utf-8", "surrogatepass"), workspace)
    except OSError as error:
        raise UsageError(f"filename {filename!r} cannot be written: {error.strerror}") from error
    return f"{FOLDER}/{name}"


def _write(name: str, data: bytes, workspace: Path) -> None:
    root = open_root(workspace)
    try:
        folder = open_folder(FOLDER, root, make=True)
        try:
            replace_file(name, data, folder)
        finally:
            close_folder(folder)
    finally:
        close_folder(root)


# ----------------------------------------------------------------------------------------------------
# Grants of the parent's tools to a program.
#
# The child does not know the parent's tools unless the parent lists them. Then the program is granted
# those. Else it is granted what its text names, so that this is checked and can be imported, and one tool
# that stands for every other name: the parent's executor knows best.

CALL_TOOL: Final = "call_tool"
"""`call_tool("any name", **arguments)`: for names that only the running program knows."""
_NAME_ARGUMENT: Final = "tool_name"
_CALL_TOOL: Final = ToolSpec(
    name=CALL_TOOL,
    python_name=CALL_TOOL,
    description="Calls a tool by its name.",
    input_schema={
        "type": "object", "properties": {_NAME_ARGUMENT: {"type": "string"}}, "required": [_NAME_ARGUMENT],
        "additionalProperties": True,
    },
    source="parent",
)  # fmt: skip
_ANY_TOOL: Final = ToolSpec(
    name=ANY_TOOL,
    python_name=ANY_TOOL,
    description="Stands for every tool that the text of a program does not name.",
    # The arguments lie deeper: a tool may have a parameter of any name.
    input_schema={
        "type": "object",
        "properties": {_NAME_ARGUMENT: {"type": "string"}, "arguments": {"type": "object"}},
        "required": [_NAME_ARGUMENT, "arguments"],
    },
    source="parent",
)
_LIMITS: Final = Limits()


class ListedTool(BaseModel):
    """A tool as gem's `get_available_tools` describes it."""

    name: str
    description: str = ""
    parameters: dict[str, Json] = Field(default_factory=lambda: {"type": "object"})
    output_schema: dict[str, Json] | None = None
    """Of type `string`: the observation is text even where it looks like JSON."""


def grant_tools(
    text: str, listed: Sequence[str | ListedTool] | None, reserved_names: Collection[str], limits: Limits = _LIMITS
) -> tuple[ToolSpec, ...]:
    """The parent's tools that a program may call.

    `listed` is what the parent offers, if it says so; `reserved_names` are identifiers of tools that the
    child has itself, and keeps.
    """
    if listed is None:
        return grant_by_name(mentioned_names(text, limits), reserved_names)
    tools = {tool.name: tool for tool in (ListedTool(name=tool) if isinstance(tool, str) else tool for tool in listed)}
    identifiers = unique_names(tools)
    return tuple(
        _spec(tool, identifiers[name]) for name, tool in tools.items() if identifiers[name] not in reserved_names
    )


def grant_by_name(names: Collection[str], reserved_names: Collection[str]) -> tuple[ToolSpec, ...]:
    """The tools that a program's text names, and one for every other name."""
    own = sorted(set(names) - set(reserved_names))
    return (*(_CALL_TOOL if name == CALL_TOOL else _spec(ListedTool(name=name), name) for name in own), _ANY_TOOL)


def _spec(tool: ListedTool, identifier: str) -> ToolSpec:
    return ToolSpec(
        name=tool.name, python_name=identifier, description=tool.description,
        input_schema=bound_schema(tool.parameters, tool.name),
        output_schema=bound_schema(tool.output_schema, tool.name) if tool.output_schema is not None else None,
        source="parent",
    )  # fmt: skip


def resolve_call(spec: ToolSpec, arguments: dict[str, Json]) -> tuple[str, dict[str, Json]]:
    """The tool and the arguments that a call is for: two of ours name another."""
    if spec is _ANY_TOOL:
        return str(arguments[_NAME_ARGUMENT]), arguments["arguments"]
    if spec is not _CALL_TOOL:
        return spec.name, arguments
    rest = {key: value for key, value in arguments.items() if key != _NAME_ARGUMENT}
    return str(arguments.get(_NAME_ARGUMENT, "")), rest
