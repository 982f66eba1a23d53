"""Loop of an evaluation: one task in one mode, from the prompt to the checks.

The model reads what the adapters of `interfaces.frameworks` offer; each task has a runtime of its own, so that the
state of a tools file starts anew.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from toolfold.config import Config, load_config
from toolfold.config.build import runtime_settings
from toolfold.errors import ToolFailed, UsageError
from toolfold.events import DirectCall, ProgramEnded, ProgramRejected, RuntimeEvent, ToolReplied
from toolfold.execution.request import change_settings
from toolfold.interfaces.cli.load_tools import load_tool_module
from toolfold.interfaces.config_runtime import CONNECT_SECONDS, BridgedRuntime, config_tools, open_runtime
from toolfold.interfaces.evaluation.tasks import (
    EvalTask,
    Failure,
    Mode,
    TaskResult,
    change_failure,
    differences,
    unknown_tools,
)
from toolfold.interfaces.frameworks.program_tool import ENTRY_NAME, Entry
from toolfold.ledger.base import Ledger
from toolfold.models import Json, RunNames, ToolSpec
from toolfold.runtime import Runtime
from toolfold.sources.model_endpoint import ModelCall, ModelClient, ModelConversation, ModelTool, ModelTurn, ModelUsage
from toolfold.tools.tool import Tool

INSTRUCTIONS: Final = (
    "Use the tools to do what the user asks. Never invent data. "
    "When all is done, answer in one short sentence that has the facts that were asked for."
)
_LONGEST_REPLY: Final = 64 * 1024
_LONGEST_NAME: Final = 200
"""Of a conversation, for the ledger."""
_LONGEST_NOTE: Final = 4_000
"""Of one text in a transcript."""


@dataclass(slots=True)
class _Activity:
    """What the runtime tells of one task."""

    calls: list[tuple[str, Mapping[str, Json]]] = field(default_factory=list)
    """Those that succeeded."""
    count: int = 0
    direct: int = 0
    programs: int = 0
    failed: int = 0
    replaced: int = 0
    has_last_failed: bool = False

    def observe(self, event: RuntimeEvent) -> None:
        match event:
            case DirectCall(call=call, reply=reply):
                self.direct += 1
                self._add(call.tool, call.arguments, has_failed=reply.error is not None)
            case ToolReplied(record=record):
                self._add(record.name, record.arguments, has_failed=record.error is not None)
            case ProgramRejected():
                self._end(has_failed=True)
            case ProgramEnded(outcome=outcome):
                self._end(has_failed=outcome.status != "finished")
                self.replaced += any("left out the definition" in hint for hint in outcome.hints)

    def _add(self, tool: str, arguments: Mapping[str, Json], *, has_failed: bool) -> None:
        self.count += 1
        if not has_failed:
            self.calls.append((tool, arguments))

    def _end(self, *, has_failed: bool) -> None:
        self.programs += 1
        self.failed += has_failed
        self.has_last_failed = has_failed


class Evaluator:
    """Runs tasks against one model.

    Args:
        client: The model.
        ledger: Where programs and direct calls are kept.
        tools: Sources of tools for tasks that name none.
        label: Prefix of the sessions that the conversations have in the ledger.
    """

    def __init__(self, client: ModelClient, ledger: Ledger, *, tools: Sequence[str] = (), label: str = "eval") -> None:
        self._client = client
        self._ledger = ledger
        self._tools = tuple(tools)
        self._label = label

    async def check(self, tasks: Sequence[EvalTask]) -> None:
        """Open each tool set once, so that its mistakes are known before the model is asked anything."""
        for sources in dict.fromkeys(map(self.sources_of, tasks)):
            async with self._open(sources, _Activity()) as (runtime, _):
                names, places = [spec.name for spec in runtime.tools], ", ".join(map(repr, sources))
                if not names:
                    raise UsageError(f"{places} has no tools; name others in the task file")
                for task in tasks:
                    unknown = next(unknown_tools(task, names), "") if self.sources_of(task) == sources else ""
                    if unknown:
                        raise UsageError(f"task {task.id!r} checks calls of {unknown!r}, which is no tool of {places}")

    def sources_of(self, task: EvalTask) -> tuple[str, ...]:
        if sources := task.tool_sources() or self._tools:
            return sources
        raise UsageError(f"task {task.id!r} has no tools; name them in the task file, or with --tools or --config")

    async def run(self, task: EvalTask, mode: Mode, number: int) -> TaskResult:
        """One run of a task.

        Raises:
            UsageError: the endpoint refuses what it is sent.
            ToolUnreachable: the endpoint does not answer.
        """
        activity, began = _Activity(), time.perf_counter()
        sources = self.sources_of(task)
        async with self._open(sources, activity) as (runtime, state):
            before = copy.deepcopy(state)
            session = f"{self._label}-{task.id}-{mode}-{number}"
            names = RunNames(
                conversation=session[-_LONGEST_NAME:], title=f"{task.id}, {mode}"[:_LONGEST_NAME], tags=("eval", mode),
                model=self._client.endpoint.model[:_LONGEST_NAME],
            )  # fmt: skip
            entry = Entry(runtime=runtime, session=session, with_both=mode != "programs", names=names)
            talk = _Talk(self._client, entry, mode)
            failure, reason = await talk.hold(task)
            seconds = time.perf_counter() - began
            count, direct = activity.count, activity.direct
            if not failure:
                failure, reason = await _judge(task, talk.answer, activity, runtime, before, state)
        return TaskResult(
            task=task.id, mode=mode, run=number, kind=task.kind, tools=tool_set_name(sources), half=task.half,
            passed=not failure, failure=failure, reason=reason, requests=talk.usage.requests,
            input_tokens=talk.usage.input_tokens, cached_tokens=talk.usage.cached_tokens,
            output_tokens=talk.usage.output_tokens, price=talk.usage.price, seconds=round(seconds, 3),
            model_seconds=round(talk.usage.seconds, 3), calls=count, direct_calls=direct, programs=activity.programs,
            failed_programs=activity.failed, replaced_tools=activity.replaced, calls_in_text=talk.calls_in_text,
            answer=talk.answer[:_LONGEST_NOTE], transcript=talk.transcript,
        )  # fmt: skip

    @asynccontextmanager
    async def _open(self, sources: tuple[str, ...], activity: _Activity) -> AsyncIterator[tuple[Runtime, Json]]:
        """A runtime with these tools, and the object `state` of the Python files."""
        config, tools, state = Config(), list[Tool](), dict[str, Json]()
        for source in sources:
            if source.endswith((".yaml", ".yml")):
                config = load_config(source)
                tools += config_tools(config)
            else:
                module, own = load_tool_module(source)
                tools += own
                state |= getattr(module, "state", {})
        settings = change_settings(
            runtime_settings(config), {"ledger": self._ledger, "listeners": [activity.observe], "interface": "eval"}
        )
        async with open_runtime(config, tools, settings) as runtime:
            if isinstance(runtime, BridgedRuntime):
                await runtime.settled(timeout_seconds=CONNECT_SECONDS)
            yield runtime, state


def tool_set_name(sources: Sequence[str]) -> str:
    return "+".join(source.rpartition("/")[2].removesuffix(".py") for source in sources)


class _Talk:
    """One conversation about one task."""

    def __init__(self, client: ModelClient, entry: Entry, mode: Mode) -> None:
        self._entry = entry
        names = frozenset(spec.name for spec in entry.runtime.tools)
        self._conversation = ModelConversation(client, INSTRUCTIONS, offered_tools(entry, mode), names)
        self.answer = ""
        self.usage = ModelUsage()
        self.calls_in_text = 0
        self.transcript: list[dict[str, Json]] = []

    async def hold(self, task: EvalTask) -> tuple[Failure, str]:
        """Say each prompt and serve the calls until the model answers; the failure if it does not."""
        for prompt in task.turns:
            self._conversation.say(prompt)
            self._note("user", prompt)
            turn: ModelTurn | None = None
            while turn is None or turn.calls:
                if self.usage.requests >= task.max_requests:
                    return "requests", f"no answer after {task.max_requests} requests"
                try:
                    turn = await self._conversation.request()
                except ToolFailed as error:  # what the model was sent is longer than its context
                    return "context", str(error)
                self.usage += turn.usage
                self.calls_in_text += len(turn.calls) if turn.has_calls_in_text else 0
                self._note("model", turn.text, calls=[f"{call.tool}({call.arguments})" for call in turn.calls])
                for call in turn.calls:
                    await self._serve(call)
            self.answer = turn.text
        return "", ""

    async def _serve(self, call: ModelCall) -> None:
        answer = await self._entry.answer(call.tool, call.arguments)
        text = answer.text_alone[:_LONGEST_REPLY]
        self._conversation.reply(call, text, has_failed=answer.has_failed)
        self._note("tool", text, tool=call.tool)

    def _note(self, role: str, text: str, **more: Json) -> None:
        self.transcript.append({"role": role, "text": text[:_LONGEST_NOTE], **more})


def offered_tools(entry: Entry, mode: Mode) -> list[ModelTool]:
    """What the requests of a mode offer."""
    program = ModelTool(name=ENTRY_NAME, description=entry.description(), schema=entry.schema)
    direct = [_direct_tool(name, spec) for name, spec in entry.direct_tools().items()]
    return [*([] if mode == "direct" else [program]), *([] if mode == "programs" else direct)]


def _direct_tool(name: str, spec: ToolSpec) -> ModelTool:
    return ModelTool(name=name, description=spec.description, schema=dict(spec.input_schema))


async def _judge(
    task: EvalTask, answer: str, activity: _Activity, runtime: Runtime, before: Json, after: Json
) -> tuple[Failure, str]:  # fmt: skip
    """The first check that does not hold, with the likely cause as its kind."""
    calls, checks = list(activity.calls), task.checks
    kind: Failure = "state"
    reason = "" if checks.changes is None else change_failure(checks.changes, differences(before, after))
    for check in checks.state:
        if not reason:
            reply = await runtime.call(check.tool, check.arguments)
            reason = f"{check.tool!r} failed: {reply.error}" if reply.error else check.failure(_as_json(reply.value))
    if not reason and checks.calls is not None:
        kind, reason = "calls", checks.calls.failure(calls)
    if not reason and checks.answer is not None:
        kind, reason = "answer", checks.answer.failure(answer)
    if reason and not calls:
        kind = "no call"
    elif reason and activity.has_last_failed:
        kind = "program"
    return (kind, reason) if reason else ("", "")


def _as_json(value: object) -> Json:
    return json.loads(json.dumps(value, default=str))
