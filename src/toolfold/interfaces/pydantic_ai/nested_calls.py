"""Calls of a program on their way through Pydantic AI, and programs that outlast a run of their agent.

Each call goes through a `ToolManager`, as a direct call would; a program can do no more than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import ValidationError
from pydantic_ai import (
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
    ToolFailed,
    ToolReturn,
    UsageLimitExceeded,
    UserError,
    UserPromptNode,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailedError, ToolRetryError
from pydantic_ai.messages import ToolCallPart, UserContent
from pydantic_ai.tool_manager import ToolManager
from pydantic_graph import End

from toolfold import errors
from toolfold.errors import ToolArgumentsInvalid, ToolRefused
from toolfold.execution.registry import Answers
from toolfold.interfaces.pydantic_ai.allowed_callers import FROM_CONFIG
from toolfold.interfaces.pydantic_ai.outcome_returns import SEARCH_NOTE, to_program
from toolfold.models import Call, Outcome, Paused, Value
from toolfold.tools.router import CallRequest, Handler, outside_check
from toolfold.tools.tool import Decision, Spent, Tool

# ----------------------------------------------------------------------------------------------------
# Deferred calls: programs that wait for an answer.
#
# A program that waits is one deferred call of `run_code`, with the calls it waits for in its metadata. `unfold` turns
# that into one request per call, `fold` the answers back; `NestedApprovals` does both in an agent. The id of a nested
# call says which program it is of, so nothing but the answers has to travel from one process to another.

NOTE: Final = "toolfold"
"""The key in the metadata of a deferred call."""

_NESTED: Final = re.compile(r"(?P<outer>.*)::(?P<execution>[0-9a-f]{16})::(?P<call>\d+)", re.DOTALL)


def nested_id(outer: str, execution_id: str, call_id: int) -> str:
    return f"{outer}::{execution_id}::{call_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedAnswers:
    """Answers to the calls of one program."""

    execution_id: str = ""
    # Any: an approval, or whatever result the outside has for a call.
    results: Mapping[int, Any] = field(default_factory=dict)
    metadata: Mapping[int, Any] = field(default_factory=dict)
    is_yes_to_all: bool = False
    """Somebody approved the program as a whole."""


def unfold(requests: DeferredToolRequests) -> DeferredToolRequests:
    """The same with one request for each call that a program waits for, in place of its `run_code`."""
    approvals: list[ToolCallPart] = []
    calls = list(requests.calls)
    metadata = dict(requests.metadata)
    for request in requests.approvals:
        note = note_in(metadata.get(request.tool_call_id))
        if "calls" not in note:  # not ours, or unfolded already
            approvals.append(request)
            continue
        del metadata[request.tool_call_id]
        for call in note["calls"]:
            key = nested_id(request.tool_call_id, note["execution_id"], call["call_id"])
            part = ToolCallPart(tool_name=call["tool"], args=call["arguments"], tool_call_id=key)
            (calls if call["is_external"] else approvals).append(part)
            metadata[key] = {**(call["metadata"] or {}), NOTE: {"run_code": request.tool_call_id}}
    return DeferredToolRequests(calls=calls, approvals=approvals, metadata=metadata)


def fold(results: DeferredToolResults) -> DeferredToolResults:
    """The answers to nested calls as one for each `run_code`; other answers as they are."""
    folded = DeferredToolResults()
    for kind in ("approvals", "calls", "metadata"):
        for key, result in getattr(results, kind).items():
            nested = _NESTED.fullmatch(key)
            if nested is None:
                getattr(folded, kind)[key] = result
                continue
            answer = _decision(result) if kind == "approvals" else result
            folded.approvals.setdefault(nested["outer"], ToolApproved())
            outer = folded.metadata.setdefault(nested["outer"], {})
            note = outer.setdefault(NOTE, {"execution_id": nested["execution"], "results": {}, "metadata": {}})
            note["metadata" if kind == "metadata" else "results"][int(nested["call"])] = answer
    return folded


# Any: an answer is whatever the outside says.
def _decision(answer: Any) -> Any:
    """A plain yes or no as an object: as the result of a call, `True` would be a value."""
    if isinstance(answer, bool):
        return ToolApproved() if answer else ToolDenied()
    return answer


# Any: metadata is whatever the application put there.
def note_in(metadata: Any) -> Mapping[str, Any]:
    note = metadata.get(NOTE) if isinstance(metadata, Mapping) else None
    return note if isinstance(note, Mapping) else {}


# Any: `RunContext.tool_call_metadata`.
def answers_in(metadata: Any) -> NestedAnswers | None:
    """Answers in the metadata that `fold` wrote."""
    note = note_in(metadata)
    if not note:
        return None
    return NestedAnswers(execution_id=note["execution_id"], results=note["results"], metadata=note["metadata"])


class NestedApprovals(AbstractCapability[Any]):
    """Shows each call that a program waits for as a deferred call of its own, and takes the answers likewise.

    `Agent(..., toolsets=[CodeModeToolset(...)], capabilities=[NestedApprovals()])`
    """

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Not part of a written agent spec: it has no options."""
        return None

    # Any: nodes of any agent.
    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        if isinstance(node, UserPromptNode) and node.deferred_tool_results is not None:
            return replace(node, deferred_tool_results=fold(node.deferred_tool_results))
        return node

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        if isinstance(result, End) and isinstance(result.data.output, DeferredToolRequests):
            return End(replace(result.data, output=unfold(result.data.output)))
        return result


# ----------------------------------------------------------------------------------------------------
# Calls on their way through a `ToolManager`.

_current: ContextVar[NestedCalls] = ContextVar("toolfold_nested")
_NO_ANSWER: Final = object()
_DEFERRED: Final = (CallDeferred, ApprovalRequired)


def through_pydantic_ai(tool: Tool, rest: Handler) -> Handler:
    """The router's step that calls a tool of Pydantic AI; the rest of the path only shapes what came back."""
    if tool.spec.source == "toolfold":
        return rest

    async def serve(request: CallRequest) -> Value:
        request.arguments = await _current.get().value_of(tool, request)
        return await rest(request)

    return serve


def spent_by_program() -> Spent | None:
    """Spent budgets of the program that makes this call; `None` for a direct call."""
    nested = _current.get(None)
    return None if nested is None else nested.spent


class _Turns:
    """Tools that must run alone wait for the others, and the others for them."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._running = 0
        self._is_alone = False

    @asynccontextmanager
    async def turn(self, *, alone: bool) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_alone and not (alone and self._running))
            self._running += 1
            self._is_alone = alone
        try:
            yield
        finally:
            async with self._changed:
                self._running -= 1
                self._is_alone = False
                self._changed.notify_all()


@dataclass(kw_only=True)
class NestedCalls:
    """What one call of `run_code` knows while its program runs.

    Tasks that serve calls copy the context they are made in, so they find it there; spans nest the same way.
    """

    # Any: the agent's dependencies, of whatever type.
    manager: ToolManager[Any]
    outer_id: str
    answers: NestedAnswers = field(default_factory=NestedAnswers)
    stop: Callable[[str], Awaitable[object]]
    revealed: list[str] = field(default_factory=list)
    """Names of tools that tools made visible to the model (`ToolReturn.tools`)."""
    search_notes: list[Any] = field(default_factory=list)
    failure: Exception | None = None
    """Ends the agent's run, not only the call."""
    content: dict[int, list[UserContent]] = field(default_factory=dict)
    """What tools have for the model beside their value, by call."""
    spent: Spent = field(default_factory=Spent)
    """By calls that go to another router of ours."""
    _deferrals: dict[int, CallDeferred | ApprovalRequired] = field(default_factory=dict)
    _used_answers: set[int] = field(default_factory=set)
    _pending: int = 0
    _turns: _Turns = field(default_factory=_Turns)
    _has_sequential_tools: bool = field(init=False)

    def __post_init__(self) -> None:
        self._has_sequential_tools = any(tool.tool_def.sequential for tool in (self.manager.tools or {}).values())

    def enter(self) -> None:
        """From here on, calls made in this task and its children are calls of this program."""
        _current.set(self)

    @property
    def context(self) -> RunContext[Any]:
        assert self.manager.ctx is not None
        return self.manager.ctx

    async def value_of(self, tool: Tool, request: CallRequest) -> Value:
        """Value of the reply; pauses as often as the tool defers its answer."""
        call, context = request.call, request.context
        assert context is not None
        if self._definition(call.tool).kind == "external":  # Pydantic AI has no validator for these
            outside_check(tool.spec)(call.arguments)
        part = ToolCallPart(
            tool_name=call.tool,
            args=dict(call.arguments),
            tool_call_id=nested_id(self.outer_id, context.execution_id, call.id),
        )
        if call.id not in self.answers.results:
            try:
                return self._unwrap(part, call.id, await self._handle(part, request))
            except _DEFERRED as deferral:
                self._deferrals[call.id] = deferral
        while context.approve is not None:
            decision = await context.approve(call, tool.spec)  # the program pauses here, maybe for days
            try:
                return self._unwrap(part, call.id, await self._apply_answer(part, request, decision))
            except _DEFERRED as deferral:
                self._deferrals[call.id] = deferral
        raise ToolRefused(f"{call.tool!r} waits for an answer that nobody can give here")

    def _definition(self, name: str) -> ToolDefinition:
        assert self.manager.tools is not None
        return self.manager.tools[name].tool_def

    def limit_answers(self, calls: Iterable[Call]) -> None:
        """Only what was asked can be answered: no call is approved before somebody saw it."""
        call_ids = {call.id for call in calls}
        results = {call_id: answer for call_id, answer in self.answers.results.items() if call_id in call_ids}
        self.answers = replace(self.answers, results=results)

    async def answer(self, paused: Paused) -> Answers:
        """Decisions for the calls that have an answer; `_apply_answer` uses its content."""
        answers = {call.id: self._answer_to(call.id) for call in paused.approvals}
        ready = {call_id: answer for call_id, answer in answers.items() if answer is not _NO_ANSWER}
        return Answers(decisions={call_id: self._decision(call_id, answer) for call_id, answer in ready.items()})

    # Any: as below.
    def _decision(self, call_id: int, answer: Any) -> Decision:
        """Decision for the record; a yes or no may stand for later calls, the result of a call may not."""
        details = note_in(self.answers.metadata.get(call_id))
        is_standing = isinstance(answer, ToolApproved | ToolDenied) and not (
            isinstance(self._deferrals.get(call_id), CallDeferred)
            or (isinstance(answer, ToolApproved) and answer.override_args is not None)
        )
        return Decision(
            approved=not isinstance(answer, ToolDenied),
            reason=answer.message if isinstance(answer, ToolDenied) else "",
            covers=details.get("covers", "call") if is_standing else "call",
            calls=details.get("calls") if is_standing else None,
            by=str(details.get("by", "")),
        )

    # Any: arguments and metadata are the tool's own.
    def waiting_for(self, call: Call) -> dict[str, Any]:
        """The entry of a call in the metadata of a deferred `run_code`; an external one wants a result, not a yes."""
        deferral = self._deferrals.get(call.id)
        return {
            "call_id": call.id, "tool": call.tool, "arguments": dict(call.arguments),
            "is_external": isinstance(deferral, CallDeferred),
            "metadata": dict(deferral.metadata) if deferral and deferral.metadata is not None else None,
        }  # fmt: skip

    # Any: an approval, or whatever the outside has for the call.
    def _answer_to(self, call_id: int) -> Any:
        if call_id in self._used_answers:
            return _NO_ANSWER  # it was for an earlier question
        if self.answers.is_yes_to_all and isinstance(self._deferrals.get(call_id), ApprovalRequired):
            return ToolApproved()
        return self.answers.results.get(call_id, _NO_ANSWER)

    async def _apply_answer(self, part: ToolCallPart, request: CallRequest, decision: Decision) -> Any:
        """Apply the answer to this call, or a standing one to an earlier call."""
        call_id = request.call.id
        answer = self._answer_to(call_id)
        if answer is _NO_ANSWER:
            if call_id in self._used_answers:
                raise ToolRefused(
                    f"{part.tool_name!r} asked again after it was approved, and no answer stands for that"
                )
            answer = ToolApproved() if decision.approved else ToolDenied(message=decision.reason)
        self._used_answers.add(call_id)
        match answer:
            case ToolApproved():
                if answer.override_args is not None:
                    part = replace(part, args=answer.override_args)
                    request.note(arguments=answer.override_args)
                metadata = self.answers.metadata.get(call_id)
                return await self._handle(part, request, approved=True, metadata=metadata)
            case ModelRetry() | ToolFailed():
                raise errors.ToolFailed(answer.message)
        return answer

    async def _handle(self, part: ToolCallPart, request: CallRequest, **options: Any) -> Any:
        try:
            self._check_limit()
            self._pending += 1
            try:
                return await self._in_turn(part, options)
            finally:
                self._pending -= 1
        except ValidationError as error:
            raise ToolArgumentsInvalid(f"bad arguments for {part.tool_name!r}: {_explain(error)}") from error
        except (ModelRetry, ToolFailed, ToolRetryError, ToolFailedError) as error:
            # A router of ours has said all of it; of others, the text does not say which tool failed.
            is_from_config = FROM_CONFIG in (self._definition(part.tool_name).metadata or {})
            kind = ToolRefused if is_from_config else errors.ToolFailed
            raise kind(str(error)) from error
        except (UsageLimitExceeded, UserError) as error:
            self.failure = error
            assert request.context is not None
            await self.stop(request.context.execution_id)
            raise

    def _check_limit(self) -> None:
        """Calls in flight count towards the limit too: of a `gather` none is on the account yet."""
        limits, usage = self.context.usage_limits, self.context.usage
        if limits is not None and limits.tool_calls_limit is not None:
            # One for this call, one for `run_code` itself, which is counted when it is over.
            limits.check_before_tool_call(replace(usage, tool_calls=usage.tool_calls + self._pending + 2))

    async def _in_turn(self, part: ToolCallPart, options: dict[str, Any]) -> Any:
        manager = self.manager
        is_alone = manager.get_parallel_execution_mode() == "sequential" or manager.is_sequential(part)
        if not is_alone and not self._has_sequential_tools:
            return await manager.handle_call(part, wrap_validation_errors=False, **options)
        async with self._turns.turn(alone=is_alone):
            return await manager.handle_call(part, wrap_validation_errors=False, **options)

    # Any: whatever a tool returned.
    def _unwrap(self, part: ToolCallPart, call_id: int, returned: Any) -> Value:
        if isinstance(returned, ToolDenied):
            raise ToolRefused(f"{part.tool_name!r} was denied: {returned.message}")
        if isinstance(returned, ToolReturn):
            if returned.content:
                content = returned.content
                self.content[call_id] = [content] if isinstance(content, str) else list(content)
            if isinstance(returned.metadata, dict) and SEARCH_NOTE in returned.metadata:
                self.search_notes.append(returned.metadata[SEARCH_NOTE])
            self.revealed += returned.tools or []
            returned = returned.return_value
        return to_program(returned)


def _explain(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, detail['loc'])) or 'arguments'}: {detail['msg']}" for detail in details)


# ----------------------------------------------------------------------------------------------------
# Programs that outlast a run of their agent: each is one deferred call, and a later run gets its result.

_RUNNING: Final = "is_running"


@dataclass(frozen=True, slots=True)
class LongProgram:
    """A program under way, with what its calls go through."""

    nested: NestedCalls
    work: asyncio.Task[Outcome]
    suspend: Callable[[], None]
    """Stops it; its record stays open."""


def call_deferral(execution_id: str, open_calls: tuple[Call, ...]) -> CallDeferred:
    """The exception of `run_code` for a program that still runs."""
    names = list(dict.fromkeys(call.tool for call in open_calls))
    return CallDeferred({NOTE: {"execution_id": execution_id, _RUNNING: True, "open_calls": names}})


class LongPrograms(dict[str, LongProgram]):
    """Programs that continue without their run, by execution id."""

    async def wait(self, requests: DeferredToolRequests, timeout_seconds: float | None) -> DeferredToolResults:
        """Wait until programs have ended or need an answer, or the time is up; returns input for the next run."""
        notes = {call.tool_call_id: note_in(requests.metadata.get(call.tool_call_id)) for call in requests.calls}
        ids = {call_id: str(note["execution_id"]) for call_id, note in notes.items() if note.get(_RUNNING)}
        works = [self[execution_id].work for execution_id in ids.values() if execution_id in self]
        if works:
            await asyncio.wait(works, timeout=timeout_seconds)
        results = DeferredToolResults()
        for call_id, execution_id in ids.items():
            # Not a yes to anything: the metadata has the run go on with the program.
            results.approvals[call_id] = ToolApproved()
            results.metadata[call_id] = {NOTE: {"execution_id": execution_id, "results": {}, "metadata": {}}}
        return results

    async def close(self) -> None:
        """Suspend the programs; their records stay."""
        unfinished = [program for program in self.values() if not program.work.done()]
        self.clear()
        for program in unfinished:
            program.suspend()
        for program in unfinished:
            # Whatever it raises, its record says how far it came.
            with contextlib.suppress(Exception):
                await program.work
