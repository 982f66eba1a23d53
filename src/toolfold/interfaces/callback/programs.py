"""Child side of the callback extension: programs that wait for their parent, inline ones, saved texts.

The timeout covers the whole execution, including the parent's work. Between two requests of the parent
the execution is paused, and only the deadline here can end it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from toolfold.checking import LARGE_TEXT_CHARACTERS, LargeChecks
from toolfold.errors import ReplyUnfit, ToolfoldError, ToolRefused, UsageError
from toolfold.execution.registry import drive, refuse_approvals
from toolfold.interfaces.callback.grants import ListedTool, grant_by_name, grant_tools, resolve_call
from toolfold.interfaces.callback.messages import (
    ForwardedCall,
    Frame,
    OpenCall,
    ResumeResult,
    ToolReply,
    error_json,
    to_json,
)
from toolfold.interfaces.media import value_as_json
from toolfold.models import Call, Limits, Outcome, Paused, Problem, ProgramOptions, Reply, ToolSpec, Value
from toolfold.program.known_names import mentioned_names
from toolfold.runtime import Runtime
from toolfold.sources.files import replace_file
from toolfold.tools.router import check_size
from toolfold.tools.tool import Tool
from toolfold.tools.values import is_plain

_T = TypeVar("_T")

DEFAULT_SECONDS: Final = 30.0
UNREAD_SECONDS: Final = 60.0
"""How long a result is kept for a parent that has not asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackRequest:
    """What the caller of `programmatic_tool_calling` asks for."""

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

    execution_id: str
    frame: Frame
    specs: dict[str, ToolSpec]
    began: float
    over: asyncio.Future[ResumeResult]
    calls: dict[int, ForwardedCall] = field(default_factory=dict)
    is_late: bool = False
    is_running: bool = False
    """Between the parent's replies and the next pause."""
    timer: asyncio.TimerHandle | None = None

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.frame.timeout_seconds - (time.perf_counter() - self.began))

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class CallbackExecutions:
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
        self._programs: dict[str, _Program] = {}
        # Any: steps and deadlines are waited for elsewhere, or by nobody.
        self._tasks: set[asyncio.Task[Any]] = set()

    async def begin(self, request: CallbackRequest, *, has_parent: bool = True) -> tuple[str, ResumeResult]:
        """Start a program: its id, and its first calls or its end."""
        began = time.perf_counter()
        frame = frame_of(request)
        try:
            limits = limits_of(request, self._limits)
            frame = frame_of(replace(request, workspace=request.workspace or self._workspace), is_saved=True)
            reserved_names = {name for spec in self._runtime.tools for name in (spec.python_name, *spec.aliases)}
            specs = await parent_specs(request, limits, reserved_names, self._large_texts) if has_parent else ()
            step = await self._runtime.start(request.code, options=request.options, tools=specs, limits=limits)
        except ToolfoldError as error:
            return "", ResumeResult(final=error_json(error, with_seconds(frame, began)), has_failed=True)
        loop = asyncio.get_running_loop()
        program = _Program(step.execution_id, frame, {spec.name: spec for spec in specs}, began, loop.create_future())
        if isinstance(step, Paused):
            self._programs[program.execution_id] = program
            program.timer = loop.call_later(program.seconds_left, lambda: self._track(self._expire(program)))
        return program.execution_id, await self._step(program, _as_coroutine(step))

    async def resume(self, execution_id: str, replies: Sequence[ToolReply]) -> ResumeResult:
        """Hand over replies: the next calls, or the end. Without replies, wait for the end."""
        program = self._programs.get(execution_id)
        if program is None:
            raise UsageError(f"no execution {execution_id!r} waits for its parent; it has ended or never existed")
        if program.is_running:
            raise UsageError(f"execution {execution_id!r} is running; wait for the result of the last resume")
        fitting = (
            []
            if program.over.done()
            else [self._reply(program, number, reply) for number, reply in _open_replies(program, replies)]
        )
        if not fitting:
            return await self._wait_for_end(program)
        program.is_running = True
        # In a task of its own: the runtime cannot let go of a `resume` that is cancelled with its request.
        return await asyncio.shield(self._track(self._step(program, self._runtime.resume(execution_id, fitting))))

    async def cancel(self, execution_id: str) -> None:
        """End a program for whose outcome nobody waits; unknown ids are ignored."""
        program = self._programs.pop(execution_id, None)
        if program is not None:
            program.stop_timer()
            await self._runtime.executions.cancel(execution_id)

    # replies

    def _reply(self, program: _Program, number: int, reply: ToolReply) -> Reply:
        """What the program gets."""
        entry = program.calls[number]
        value = read_reply(entry, reply, program.specs.get(entry.call.name), self._limits.reply_bytes)
        return Reply(call_id=number, value=value, error=entry.error)

    # steps

    async def _step(self, program: _Program, step: Coroutine[Any, Any, Paused | Outcome]) -> ResumeResult:
        program.is_running = True
        try:
            return await self._result(program, await step)
        except ToolfoldError as error:
            await self._runtime.executions.cancel(program.execution_id)
            return self._settle(
                program, error_json(error, with_seconds(program.frame, program.began), list(program.calls.values()))
            )
        finally:
            program.is_running = False

    async def _result(self, program: _Program, step: Paused | Outcome) -> ResumeResult:
        step = await drive(self._runtime, step, refuse_approvals)
        if isinstance(step, Outcome):
            return self._finish(program, step)
        if program.is_late:  # it paused at the moment its time ran out
            return await self._end_paused(program)
        fresh = [_forward(program, call) for call in step.calls if call.id not in program.calls]
        return ResumeResult(calls=fresh, seconds_left=program.seconds_left)

    # the end

    async def _expire(self, program: _Program) -> None:
        """End it: its time is over, whether the program or its parent is at work."""
        program.is_late = True
        if program.is_running:
            await self._runtime.executions.cancel(
                program.execution_id
            )  # the outcome comes to whoever waits for this step
        else:
            await self._end_paused(program)
            asyncio.get_running_loop().call_later(UNREAD_SECONDS, self._programs.pop, program.execution_id, None)

    async def _end_paused(self, program: _Program) -> ResumeResult:
        """End a program that is paused."""
        outcome = await self._runtime.executions.cancel(program.execution_id)
        if outcome is None:  # its guest had to make room for others, and only its record is left
            await self._runtime.executions.end_recorded(program.execution_id)
        return self._finish(program, outcome or Outcome(execution_id=program.execution_id, status="cancelled"))

    def _finish(self, program: _Program, outcome: Outcome) -> ResumeResult:
        if program.is_late:
            outcome = _too_late(outcome, program.frame)
        text = to_json(outcome, list(program.calls.values()), with_seconds(program.frame, program.began))
        return self._settle(program, text, has_failed=outcome.status != "finished")

    def _settle(self, program: _Program, final: str, *, has_failed: bool = True) -> ResumeResult:
        program.stop_timer()
        result = ResumeResult(final=final, has_failed=has_failed)
        if not program.over.done():
            program.over.set_result(result)
        if program.is_running:
            self._programs.pop(program.execution_id, None)  # whoever waits for this step is told
        return result

    async def _wait_for_end(self, program: _Program) -> ResumeResult:
        result = await asyncio.shield(program.over)
        self._programs.pop(program.execution_id, None)
        return result

    def _track(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _as_coroutine(step: Paused | Outcome) -> Paused | Outcome:
    return step


def _open_replies(program: _Program, replies: Sequence[ToolReply]) -> Iterator[tuple[int, ToolReply]]:
    """Replies to calls that are open, by the number that the runtime knows; others are ignored."""
    numbers = {entry.call.id: number for number, entry in program.calls.items() if entry.reply is None}
    for reply in replies:
        number = numbers.pop(reply.id, None)
        if number is not None:
            yield number, reply


def _forward(program: _Program, call: Call) -> OpenCall:
    name, arguments = resolve_call(program.specs[call.tool], value_as_json(call.arguments))
    open_call = OpenCall(id=f"call_{program.execution_id}_{call.id}", name=name, arguments=arguments)
    program.calls[call.id] = ForwardedCall(open_call)
    return open_call


def limits_of(request: CallbackRequest, usual: Limits) -> Limits:
    """Limits of one program.

    Raises:
        UsageError: its timeout is none, or too long.
    """
    seconds, most = request.timeout_seconds, usual.wall_seconds
    if not seconds > 0:
        raise UsageError(f"timeout {seconds!r} is not a number of seconds above 0")
    if seconds > most:
        raise UsageError(f"timeout is {seconds!r}; the most here is {most:g} seconds; nothing was called")
    return replace(usual, wall_seconds=seconds)


def frame_of(request: CallbackRequest, *, is_saved: bool = False) -> Frame:
    """What the answer says besides the outcome; with `is_saved`, the program is saved for it where that is wanted.

    Raises:
        UsageError: it cannot be saved.
    """
    path = None
    if is_saved and request.filename is not None:
        assert request.workspace is not None
        path = save_program(request.code, request.filename, request.workspace)
    return Frame(
        seconds=0.0, timeout_seconds=request.timeout_seconds, file_path=path, is_timed=request.options.clock is None
    )


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
    """Note a reply, and give the value that it has for the program; none where `entry` has an error then."""
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


def with_seconds(frame: Frame, began: float) -> Frame:
    """With the time that it took, where that is told."""
    return replace(frame, seconds=time.perf_counter() - began) if frame.is_timed else frame


def _too_late(outcome: Outcome, frame: Frame) -> Outcome:
    if outcome.status != "cancelled":
        return outcome
    message = f"the program took longer than {frame.timeout_seconds:g} s"
    return replace(outcome, status="timeout", problem=Problem(kind="wall_clock", message=message))


def _value(observation: str, spec: ToolSpec | None) -> Value:
    """What the text says: JSON is parsed where it starts like an object or a list, unless the tool returns text."""
    is_text = spec is not None and spec.output_schema is not None and spec.output_schema.get("type") == "string"
    if is_text or observation[:1] not in ("{", "["):
        return observation
    try:
        value = msgspec.json.decode(observation)
    except (ValueError, RecursionError):
        return observation
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
        """A program, to its end: the JSON of the tool, and whether it failed."""
        began = time.perf_counter()
        frame = frame_of(request)
        calls = _InlineCalls(request, answer, self._limits.reply_bytes)
        try:
            limits = limits_of(request, self._limits)
            frame = frame_of(request, is_saved=True)
            specs = await parent_specs(request, limits, (), self._large_texts)
            # Nothing may come in between: what begins next has these tools, and keeps them.
            self._runtime.replace_tools(calls.tools(specs))
            outcome = await self._runtime.run(request.code, options=request.options, limits=limits)
        except ToolfoldError as error:
            return error_json(error, with_seconds(frame, began), calls.entries), True
        return to_json(outcome, calls.entries, with_seconds(frame, began)), outcome.status != "finished"


class _InlineCalls:
    """Inline calls of one program."""

    def __init__(self, request: CallbackRequest, answer: Answer, reply_bytes: int) -> None:
        self.entries: list[ForwardedCall] = []
        self._name = request.name or secrets.token_hex(8)
        self._answer = answer
        self._reply_bytes = reply_bytes
        self._room = asyncio.Semaphore(AT_ONCE)
        self._reply_barrier = _ReplyBarrier() if request.options.clock is not None else None

    def tools(self, specs: Sequence[ToolSpec]) -> list[Tool]:
        """The parent's, each of which leads here."""
        return [Tool(spec=spec, call=partial(self._serve, spec), retry="never") for spec in specs]

    async def _serve(self, spec: ToolSpec, arguments: Mapping[str, Value]) -> Value:
        # Any: arguments are JSON.
        plain: dict[str, Any] = value_as_json(arguments)
        name, call_arguments = resolve_call(spec, plain)
        call = OpenCall(id=f"call_{self._name}_{len(self.entries) + 1}", name=name, arguments=call_arguments)
        entry = ForwardedCall(call)
        self.entries.append(entry)
        if self._reply_barrier is None:
            reply = await self._reply_to(call)
        else:
            reply = await self._reply_barrier.wait(self._reply_to(call))
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
    """Write the program; its path relative to the workspace.

    Raises:
        UsageError: `filename` is no plain file name, or cannot be written.
    """
    name = filename if filename.endswith(".py") else f"{filename}.py"
    if name != os.path.basename(name) or name.startswith(".") or not name.isprintable() or "\\" in name:
        raise UsageError(f"filename {filename!r} is not a plain file name; give one without folders, like 'report.py'")
    try:
        _write(name, text.encode("utf-8", "surrogatepass"), workspace)
    except OSError as error:
        raise UsageError(f"filename {filename!r} cannot be written: {error.strerror}") from error
    return f"{FOLDER}/{name}"


def _write(name: str, data: bytes, workspace: Path) -> None:
    with suppress(FileExistsError):
        os.mkdir(workspace / FOLDER)
    folder = os.open(workspace / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        replace_file(name, data, folder)
    finally:
        os.close(folder)
