"""Anthropic's shapes: tools with `allowed_callers`, `tool_use` with its `caller`, `tool_result`. Needs no SDK.

What Anthropic's hosted programmatic tool calling does there, done here: the same tool definitions
go in, and each call of a program comes out as a `tool_use` block that names the program's own as
its `caller`. Such blocks are for the host only; the model sees the program's result.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from toolfold.doors.frameworks.anthropic_blocks import (
    as_result,
    as_tool_use,
    definition_of,
    nested_tool_use,
    read_tools,
    replies_of,
    reply_of,
)
from toolfold.doors.frameworks.entry import Entry, program_text
from toolfold.doors.frameworks.items import Item, as_item
from toolfold.doors.frameworks.render import Shown, shown_crash, shown_outcome, shown_reply
from toolfold.doors.frameworks.texts import ENTRY_NAME
from toolfold.errors import EngineCrashed, ToolError, UsageError
from toolfold.execution.background import Answer as AnswerPause
from toolfold.execution.background import Answers, drive, refuse_approvals
from toolfold.execution.described_files import DescribedFiles
from toolfold.models import File, Limits, Outcome, Paused, Reply
from toolfold.runtime import Runtime
from toolfold.tools.router import error_text
from toolfold.tools.values import to_value

# Any: it returns a `tool_result`, or whatever a tool may return, now or when awaited.
Answer: TypeAlias = Callable[[Item], Any]
"""The host's own way to answer a `tool_use` block."""


def anthropic_tool(
    runtime: Runtime, *, tools: Sequence[Any] = (), name: str = ENTRY_NAME, session: str = "",
    limits: Limits | None = None, with_both: bool = False, files: Sequence[File] | DescribedFiles = (),
) -> AnthropicTool:  # fmt: skip
    """This runtime as a tool for Anthropic's Messages API.

    Args:
        runtime: Runs the programs; must be entered when calls are answered.
        tools: Definitions of the Messages API that the host answers itself. `allowed_callers` says who may call
            each: `direct` (unless given) the model, `code_execution_…` programs. A hosted code execution
            tool among them is replaced by this one.
        name: What the model calls the tool.
        session: Keeps names and files between the programs; empty keeps nothing.
        limits: Of each program; the runtime's own unless given.
        with_both: Also offer, for direct calls, the runtime's tools that may be called either way.
        files: In the working directory of every program; a session may change them. The model is told of their names,
            and, if they come from `await runtime.describe_files(files)`, of what is in them.

    Raises:
        UsageError: a definition is wrong, or has the name of one of the runtime's tools.
    """
    given = [as_item(one, "a tool definition") for one in tools]
    specs = read_tools(given, taken=frozenset(spec.name for spec in (*runtime.tools, *runtime.direct_tools)))
    outside = [spec for spec in specs.values() if spec.allowed_callers != "direct"]
    entry = Entry(
        runtime=runtime, name=name, session=session, limits=limits, with_both=with_both, outside=tuple(outside),
        files=DescribedFiles.of(files),
    )  # fmt: skip
    return AnthropicTool(entry, tuple(given))


@dataclass(frozen=True, slots=True)
class AnthropicTool:
    """Definitions for requests, and answers to the `tool_use` blocks that come back."""

    entry: Entry
    given: tuple[Item, ...] = ()

    @property
    def tools(self) -> list[Item]:
        """For `tools=` of a request: the tool that runs programs, then all that the model may call itself."""
        own = {"name": self.entry.name, "description": self.entry.description(), "input_schema": self.entry.schema()}
        direct = [
            {"name": name, "description": spec.description, "input_schema": dict(spec.input_schema)}
            for name, spec in self.entry.direct_tools().items()
        ]
        given = [definition_of(one) for one in self.given]
        return [own, *direct, *(one for one in given if one is not None)]

    # Any: a model of the SDK, or the same as a dict.
    async def answer(self, block: Any, call: Answer | None = None) -> Item:
        """The `tool_result` block for one `tool_use` block, whatever became of it.

        Args:
            block: A `tool_use` of the model.
            call: Answers a `tool_use` of one of the given tools, the model's or a program's, with a `tool_result`
                or a value; sync or async, many at a time. What it raises is the tool's error.

        Raises:
            UsageError: it is no `tool_use`, or it takes `call` to answer it.
        """
        item = as_tool_use(block)
        if item["name"] in self._given_names:
            return await _answer_direct(item, _needed(call))

        async def reply_to(paused: Paused) -> Answers:
            uses = self._blocks(item, paused)
            replies = await asyncio.gather(*(_reply(one, _needed(call)) for one in uses))
            pairs = zip(replies, paused.calls, strict=True)
            numbered = [msgspec.structs.replace(reply, call_id=one.id) for reply, one in pairs]
            refused = await refuse_approvals(paused)
            return Answers(replies=numbered, decisions=refused.decisions)

        [result] = self._blocks(item, await self._begin(item, reply_to))
        return result

    async def start(self, block: Any) -> list[Item]:
        """Begin to answer a `tool_use`: its `tool_result`, or the `tool_use` blocks that must be answered first.

        Those of a program have a `caller` of the type that their tool allows, with the block's id as `tool_id`.
        """
        item = as_tool_use(block)
        if item["name"] in self._given_names:
            return [_of_the_model(item)]
        return self._blocks(item, await self._begin(item))

    async def resume(self, block: Any, results: Sequence[Any]) -> list[Item]:
        """Go on with some or all of the blocks that `start` gave answered; also in another process.

        Args:
            block: The same `tool_use` of the model.
            results: A `tool_result` for each block that is answered now.

        Raises:
            UsageError: the results are not those of one program.
        """
        item, given = as_tool_use(block), [as_item(one, "a block") for one in results]
        if item["name"] != self.entry.name:
            return given
        execution_id, replies = replies_of(given)
        return self._blocks(item, await self._step(self.entry.runtime.resume(execution_id, replies)))

    @property
    def _given_names(self) -> set[str]:
        return {one["name"] for one in self.given}

    async def _begin(self, item: Item, answer: AnswerPause = refuse_approvals) -> Paused | Shown:
        entry = self.entry
        if item["name"] != entry.name or not entry.outside:
            return await entry.answer(item["name"], item["input"])
        text = program_text(item["input"])
        if isinstance(text, Shown):
            return text
        return await self._step(entry.runtime.start(text, tools=entry.outside, **entry.options()), answer)

    async def _step(self, work: Awaitable[Paused | Outcome], answer: AnswerPause = refuse_approvals) -> Paused | Shown:
        """The pause that `answer` leaves to the host, or the end; approvals have no shape here and are refused."""
        try:
            step = await drive(self.entry.runtime, await work, answer)
        except EngineCrashed as error:
            return shown_crash(error)
        return step if isinstance(step, Paused) else shown_outcome(step)

    def _blocks(self, item: Item, step: Paused | Shown) -> list[Item]:
        if isinstance(step, Shown):
            return [as_result(item["id"], step)]
        by_name = {one["name"]: one for one in self.given}
        return [nested_tool_use(step.execution_id, one, by_name[one.tool], item["id"]) for one in step.calls]


def _of_the_model(item: Item) -> Item:
    return {**item, "caller": item.get("caller") or {"type": "direct"}}


def _needed(call: Answer | None) -> Answer:
    if call is None:
        raise UsageError("the given tools must be answered: give call=, or use start and resume")
    return call


async def _answer_direct(item: Item, call: Answer) -> Item:
    try:
        returned = await _called(call, _of_the_model(item))
    # Whatever the host's own function raises is the tool's failure.
    except Exception as error:  # noqa: BLE001
        return as_result(item["id"], Shown(text=error_text(item["name"], error), has_failed=True))
    if _is_result(returned):
        return {**as_item(returned, "a block"), "tool_use_id": item["id"]}
    return as_result(item["id"], shown_reply(_shaped(item["name"], returned)))


async def _reply(use: Item, call: Answer) -> Reply:
    try:
        returned = await _called(call, use)
    # The same.
    except Exception as error:  # noqa: BLE001
        return Reply(call_id=0, error=error_text(use["name"], error))
    return (
        reply_of(as_item(returned, "a block"), use["name"]) if _is_result(returned) else _shaped(use["name"], returned)
    )


# Any: see `Answer`.
async def _called(call: Answer, use: Item) -> Any:
    if inspect.iscoroutinefunction(call):
        return await call(use)
    returned = await asyncio.to_thread(call, use)
    return await returned if inspect.isawaitable(returned) else returned


def _is_result(returned: Any) -> bool:
    return (returned.get("type") if isinstance(returned, dict) else getattr(returned, "type", None)) == "tool_result"


def _shaped(name: str, returned: Any) -> Reply:
    try:
        return Reply(call_id=0, value=to_value(returned))
    except ToolError as error:
        return Reply(call_id=0, error=f"{name!r} returned {error}")
