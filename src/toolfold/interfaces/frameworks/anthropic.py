"""Adapter for Anthropic's Messages API: tool definitions, `tool_use` and `tool_result` blocks, without an SDK.

What Anthropic's hosted programmatic tool calling does there, done here: the same tool definitions
go in, and each call of a program comes out as a `tool_use` block that names the program's own as
its `caller`. Such blocks are for the host only; the model sees the program's result.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import jsonschema_rs
import msgspec

from toolfold.errors import EngineCrashed, ToolError, UsageError
from toolfold.execution.described_files import DescribedFiles
from toolfold.execution.registry import Answer as AnswerPause
from toolfold.execution.registry import Answers, drive, refuse_approvals
from toolfold.interfaces.frameworks.program_tool import (
    ENTRY_NAME,
    Entry,
    ModelAnswer,
    WithBoth,
    render_crash,
    render_outcome,
    render_reply,
)
from toolfold.models import AllowedCallers, Call, File, Json, Limits, Media, Outcome, Paused, Reply, ToolSpec, Value
from toolfold.runtime import Runtime
from toolfold.tools.arguments import bound_schema
from toolfold.tools.router import error_text
from toolfold.tools.sendable_values import parse_json, to_value
from toolfold.tools.tool import unique_names

# ----------------------------------------------------------------------------------------------------
# What an SDK gives, as the plain dict that its API would have sent.

Item: TypeAlias = dict[str, Json]


# Any: a model of the SDK, or the same as a dict.
def as_item(value: Any, subject: str) -> Item:
    """A block, definition or call as a dict; `subject` names it in the error."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "model_dump"):
        return dict(value.model_dump(mode="json", by_alias=True, exclude_none=True))
    raise UsageError(f"{subject} is an object of the SDK or a dict, got {type(value).__name__!r}")


# Any: it returns a `tool_result`, or whatever a tool may return, now or when awaited.
Answer: TypeAlias = Callable[[Item], Any]
"""The host's own way to answer a `tool_use` block."""


def anthropic_tool(
    runtime: Runtime, *, tools: Sequence[Any] = (), name: str = ENTRY_NAME, session: str = "",
    limits: Limits | None = None, with_both: WithBoth = False, files: Sequence[File] | DescribedFiles = (),
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
        with_both: Also offer, for direct calls, the runtime's tools that may be called either way; `"small"` only
            those that only read and have replied little so far.
        files: In the working directory of every program; a session may change them. The model is told of their names,
            and, if they come from `await runtime.describe_files(files)`, of what is in them.

    Raises:
        UsageError: a definition is wrong, or has the name of one of the runtime's tools.
    """
    definitions = [as_item(definition, "a tool definition") for definition in tools]
    specs = read_tools(
        definitions, used_names=frozenset(spec.name for spec in (*runtime.tools, *runtime.catalog.direct))
    )
    outside = [spec for spec in specs.values() if spec.allowed_callers != "direct"]
    entry = Entry(
        runtime=runtime, name=name, session=session, limits=limits, with_both=with_both, outside=tuple(outside),
        files=DescribedFiles.of(files),
    )  # fmt: skip
    return AnthropicTool(entry, tuple(definitions))


@dataclass(frozen=True, slots=True)
class AnthropicTool:
    """Definitions for requests, and answers to the `tool_use` blocks that come back."""

    entry: Entry
    definitions: tuple[Item, ...] = ()

    @property
    def tools(self) -> list[Item]:
        """For `tools=` of a request: the tool that runs programs, then all that the model may call itself."""
        own = {"name": self.entry.name, "description": self.entry.description(), "input_schema": self.entry.schema}
        direct = [
            {"name": name, "description": spec.description, "input_schema": dict(spec.input_schema)}
            for name, spec in self.entry.direct_tools().items()
        ]
        definitions = [definition_of(definition) for definition in self.definitions]
        return [own, *direct, *(definition for definition in definitions if definition is not None)]

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
        if item["name"] in self._definition_names:
            return await _answer_direct(item, _require(call))

        async def reply_to(paused: Paused) -> Answers:
            uses = self._blocks(item, paused)
            replies = await asyncio.gather(*(_reply(request, _require(call)) for request in uses))
            pairs = zip(replies, paused.calls, strict=True)
            numbered = [msgspec.structs.replace(reply, call_id=request.id) for reply, request in pairs]
            refused = await refuse_approvals(paused)
            return Answers(replies=numbered, decisions=refused.decisions)

        [result] = self._blocks(item, await self._begin(item, reply_to))
        return result

    async def start(self, block: Any) -> list[Item]:
        """Begin to answer a `tool_use`: its `tool_result`, or the `tool_use` blocks that must be answered first.

        Those of a program have a `caller` of the type that their tool allows, with the block's id as `tool_id`.
        """
        item = as_tool_use(block)
        if item["name"] in self._definition_names:
            return [_with_caller(item)]
        return self._blocks(item, await self._begin(item))

    async def resume(self, block: Any, results: Sequence[Any]) -> list[Item]:
        """Go on with some or all of the blocks that `start` gave answered; also in another process.

        Args:
            block: The same `tool_use` of the model.
            results: A `tool_result` for each block that is answered now.

        Raises:
            UsageError: the results are not those of one program.
        """
        item, blocks = as_tool_use(block), [as_item(result, "a block") for result in results]
        if item["name"] != self.entry.name:
            return blocks
        execution_id, replies = replies_of(blocks)
        return self._blocks(item, await self._step(self.entry.runtime.resume(execution_id, replies)))

    @property
    def _definition_names(self) -> set[str]:
        return {definition["name"] for definition in self.definitions}

    async def _begin(self, item: Item, answer: AnswerPause = refuse_approvals) -> Paused | ModelAnswer:
        entry = self.entry
        if item["name"] != entry.name or not entry.outside:
            return await entry.answer(item["name"], item["input"])
        program = entry.program(item["input"])
        if isinstance(program, ModelAnswer):
            return program
        text, options = program
        return await self._step(entry.runtime.start(text, options=options, tools=entry.outside), answer)

    async def _step(
        self, work: Awaitable[Paused | Outcome], answer: AnswerPause = refuse_approvals
    ) -> Paused | ModelAnswer:
        """The pause that `answer` leaves to the host, or the end; approvals have no shape here and are refused."""
        try:
            step = await drive(self.entry.runtime, await work, answer)
        except EngineCrashed as error:
            return render_crash(error)
        return step if isinstance(step, Paused) else render_outcome(step)

    def _blocks(self, item: Item, step: Paused | ModelAnswer) -> list[Item]:
        if isinstance(step, ModelAnswer):
            return [as_result(item["id"], step)]
        by_name = {entry["name"]: entry for entry in self.definitions}
        return [nested_tool_use(step.execution_id, entry, by_name[entry.tool], item["id"]) for entry in step.calls]


def _with_caller(item: Item) -> Item:
    return {**item, "caller": item.get("caller") or {"type": "direct"}}


def _require(call: Answer | None) -> Answer:
    if call is None:
        raise UsageError("the given tools must be answered: give call=, or use start and resume")
    return call


async def _answer_direct(item: Item, call: Answer) -> Item:
    result = await _result(_with_caller(item), call)
    if isinstance(result, Reply):
        return as_result(item["id"], render_reply(result))
    return {**result, "tool_use_id": item["id"]}


async def _reply(use: Item, call: Answer) -> Reply:
    result = await _result(use, call)
    return result if isinstance(result, Reply) else reply_of(result, use["name"])


async def _result(use: Item, call: Answer) -> Item | Reply:
    """The host's answer: its own `tool_result`, or a reply with the value or the error."""
    name = use["name"]
    try:
        result = await (call(use) if inspect.iscoroutinefunction(call) else asyncio.to_thread(call, use))
        result = await result if inspect.isawaitable(result) else result
    # Whatever the host's own function raises is the tool's failure.
    except Exception as error:  # noqa: BLE001
        return Reply(call_id=0, error=error_text(name, error))
    kind = result.get("type") if isinstance(result, dict) else getattr(result, "type", None)
    if kind == "tool_result":
        return as_item(result, "a block")
    try:
        return Reply(call_id=0, value=to_value(result))
    except ToolError as error:
        return Reply(call_id=0, error=f"{name!r} returned {error}")


# ----------------------------------------------------------------------------------------------------
# Blocks and definitions of Anthropic's Messages API, read and written. Pure; plain dicts.

DIRECT: Final = "direct"
_HOSTED_PREFIX: Final = "code_execution_"
_FIRST_CALLER: Final = "code_execution_20250825"
_CALLER: Final = "code_execution_20260120"
_NESTED_ID: Final = re.compile(r"toolu_([0-9a-f]{16})_([0-9]{1,9})", re.ASCII)


# --- definitions ----------------------------------------------------------------------------


def read_tools(definitions: Sequence[Item], *, used_names: frozenset[str]) -> dict[str, ToolSpec]:
    """The definitions that the host answers, by name; hosted tools are left out."""
    callers = [(definition, callers_of(definition)) for definition in definitions]
    own = [(definition, allowed) for definition, allowed in callers if not is_hosted(definition)]
    names = [definition.get("name") for definition, _ in own]
    for name in names:
        if not isinstance(name, str) or not name:
            raise UsageError(f"a tool definition needs a name, got {name!r}")
        if names.count(name) > 1 or name in used_names:
            raise UsageError(f"two tools are named {name!r}; rename one")
    identifiers = unique_names(str(name) for name in names)
    return {
        definition["name"]: _spec(definition, identifiers[definition["name"]], allowed) for definition, allowed in own
    }


def definition_of(definition: Item) -> Item | None:
    """A definition as the model's request may have it; `None` for one that only programs may call."""
    if _kind(definition).startswith(_HOSTED_PREFIX) or callers_of(definition) == "code":
        return None
    # What the request does not have, a hosted code execution, must not be named in it.
    return {key: value for key, value in definition.items() if key != "allowed_callers"}


def is_hosted(definition: Item) -> bool:
    return _kind(definition) not in ("", "custom")


def callers_of(definition: Item) -> AllowedCallers:
    callers = [DIRECT] if definition.get("allowed_callers") is None else list(definition["allowed_callers"])
    for caller in callers:
        if caller != DIRECT and not str(caller).startswith(_HOSTED_PREFIX):
            raise UsageError(
                f"tool {definition.get('name')!r}: allowed caller {caller!r} is not 'direct' or 'code_execution_…'"
            )
    if not callers:
        raise UsageError(
            f"tool {definition.get('name')!r}: allowed_callers is empty; name 'direct' or 'code_execution_…'"
        )
    is_direct, is_code = DIRECT in callers, any(caller != DIRECT for caller in callers)
    if is_hosted(definition) and not is_direct and not _kind(definition).startswith(_HOSTED_PREFIX):
        raise UsageError(
            f"tool {definition.get('name')!r} runs at Anthropic and no program here can call it; allow 'direct'"
        )
    return "both" if is_direct and is_code else "direct" if is_direct else "code"


def _kind(definition: Item) -> str:
    return str(definition.get("type") or "")


def _spec(definition: Item, identifier: str, callers: AllowedCallers) -> ToolSpec:
    schema = {"type": "object", **(definition.get("input_schema") or {})}
    if schema["type"] != "object" or not jsonschema_rs.meta.is_valid(schema):
        raise UsageError(f"the input_schema of tool {definition['name']!r} is no JSON Schema of an object")
    return ToolSpec(
        name=definition["name"], python_name=identifier, description=str(definition.get("description") or ""),
        input_schema=bound_schema(schema, definition["name"]), examples=tuple(definition.get("input_examples") or ()),
        allowed_callers=callers, source="caller",
    )  # fmt: skip


# --- blocks ---------------------------------------------------------------------------------


# Any: a model of the SDK, or the same as a dict.
def as_tool_use(block: Any) -> Item:
    item = as_item(block, "a block")
    match item:
        case {"type": "tool_use", "id": str(), "name": str(), "input": dict()}:
            return item
    raise UsageError(f"{item.get('type')!r} is no 'tool_use' block with id, name and input")


def nested_tool_use(execution_id: str, call: Call, definition: Item, program: str) -> Item:
    """A program's call; its id says which call of which execution it is, so that nothing need be remembered."""
    hosted = [caller for caller in definition.get("allowed_callers") or () if caller != DIRECT]
    # The block's own types know no later one.
    kind = _FIRST_CALLER if hosted == [_FIRST_CALLER] else _CALLER
    return {
        "type": "tool_use", "id": f"toolu_{execution_id}_{call.id}", "name": call.tool, "input": dict(call.arguments),
        "caller": {"type": kind, "tool_id": program},
    }  # fmt: skip


def as_result(tool_use_id: str, answer: ModelAnswer) -> Item:
    content: str | list[Item] = answer.text
    if answer.images:
        pictures = [
            {"type": "image", "source": {"type": "base64", "media_type": image.mime, "data": image.base64}}
            for image in answer.images
        ]
        content = [{"type": "text", "text": answer.text}, *pictures]
    return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": answer.has_failed}


def replies_of(results: Sequence[Item]) -> tuple[str, list[Reply]]:
    """The execution that these blocks belong to, and the replies in them."""
    replies: dict[str, list[Reply]] = {}
    for result in results:
        match = _NESTED_ID.fullmatch(str(result.get("tool_use_id")))
        if match is None or result.get("type") != "tool_result":
            raise UsageError(f"no program waits for {result.get('tool_use_id')!r}; answer with the block's own id")
        replies.setdefault(match[1], []).append(reply_of(result, call_id=int(match[2])))
    if len(replies) != 1:
        raise UsageError(f"give the results of one program, got those of {len(replies)}")
    return next(iter(replies.items()))


def reply_of(result: Item, name: str = "", call_id: int = 0) -> Reply:
    content = result.get("content")
    parts = [content] if isinstance(content, str) else [_part(as_item(part, "a block")) for part in content or ()]
    if result.get("is_error"):
        text = "\n".join(part for part in parts if isinstance(part, str)) or "the tool failed"
        return Reply(call_id=call_id, error=f"{name!r} failed: {text}" if name else text)
    values = [parse_json(part) if isinstance(part, str) else part for part in parts]
    return Reply(call_id=call_id, value=values[0] if len(values) == 1 else values or None)


def _part(block: Item) -> Value:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image", "source": {"type": "base64", "media_type": str(mime), "data": str(data)}}:
            try:
                return Media(kind="image", mime=mime, data=base64.b64decode(data, validate=True))
            except binascii.Error as error:
                raise UsageError(f"the data of an image is not base64: {error}") from error
    return block
