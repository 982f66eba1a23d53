"""Adapter for OpenAI's APIs: function and custom tools, for Chat Completions and Responses, without an SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolfold.errors import UsageError
from toolfold.execution.described_files import DescribedFiles
from toolfold.interfaces.frameworks.anthropic import Item, as_item
from toolfold.interfaces.frameworks.program_tool import ENTRY_NAME, Entry, ModelAnswer, WithBoth
from toolfold.models import File, Limits
from toolfold.runtime import Runtime


def openai_tool(
    runtime: Runtime, *, name: str = ENTRY_NAME, session: str = "", limits: Limits | None = None,
    with_both: WithBoth = False, custom: bool = False, files: Sequence[File] | DescribedFiles = (),
) -> OpenAITool:  # fmt: skip
    """This runtime as a tool for OpenAI's APIs, and for those that take the same shapes.

    Args:
        runtime: Runs the programs; must be entered when calls are answered.
        name: What the model calls the tool.
        session: Keeps names and files between the programs; empty keeps nothing.
        limits: Of each program; the runtime's own unless given.
        with_both: Also offer, for direct calls, the tools that may be called either way; `"small"` only those that
            only read and have replied little so far.
        custom: A custom tool, whose input is the bare program, in place of a function with JSON arguments.
        files: In the working directory of every program; a session may change them. The model is told of their names,
            and, if they come from `await runtime.describe_files(files)`, of what is in them.
    """
    entry = Entry(
        runtime=runtime, name=name, session=session, limits=limits, with_both=with_both, files=DescribedFiles.of(files)
    )
    return OpenAITool(entry, is_custom=custom)


@dataclass(frozen=True, slots=True)
class OpenAITool:
    """Definitions for requests, and answers to the calls that come back."""

    entry: Entry
    is_custom: bool = False

    @property
    def chat_tools(self) -> list[Item]:
        """For `tools=` of Chat Completions: the tool that runs programs, then those for direct calls."""
        return [_in_chat(definition) for definition in self.responses_tools]

    @property
    def responses_tools(self) -> list[Item]:
        """The same for `tools=` of Responses."""
        # Not strict: that mode takes only a part of JSON Schema, and tools have all of it.
        direct = [
            _function(name, spec.description, spec.input_schema, strict=False)
            for name, spec in self.entry.direct_tools().items()
        ]
        return [self._definition(), *direct]

    # Any: a model of the SDK, or the same as a dict.
    async def answer(self, call: Any) -> Item:
        """The message or item that answers one tool call, whatever became of it.

        Args:
            call: Of Chat Completions (`message.tool_calls`), or an item of Responses (`response.output`).

        Raises:
            UsageError: it is no call of a function or of a custom tool.
        """
        item = as_item(call, "a tool call")
        match item:
            case {"type": "function", "id": id_, "function": {"name": name, "arguments": arguments}}:
                return _message(id_, await self.entry.answer(name, arguments))
            case {"type": "custom", "id": id_, "custom": {"name": name, "input": text}}:
                return _message(id_, await self._answer_text(name, text))
            case {"type": "function_call", "call_id": id_, "name": name, "arguments": arguments}:
                return _output(item, "function_call_output", id_, await self.entry.answer(name, arguments))
            case {"type": "custom_tool_call", "call_id": id_, "name": name, "input": text}:
                return _output(item, "custom_tool_call_output", id_, await self._answer_text(name, text))
        raise UsageError(f"{item.get('type')!r} is no tool call; give one of `tool_calls`, or a `function_call` item")

    async def _answer_text(self, name: str, text: str) -> ModelAnswer:
        if name == self.entry.name:
            return await self.entry.answer_program(text)
        return await self.entry.answer(name, text)

    def _definition(self) -> Item:
        name, description = self.entry.name, self.entry.description(has_language=not self.is_custom)
        if self.is_custom:
            return {"type": "custom", "name": name, "description": description}
        return _function(name, description, self.entry.schema, strict=True)


def _function(name: str, description: str, schema: Mapping[str, Any], *, strict: bool) -> Item:
    definition = {"name": name, "description": description, "parameters": dict(schema), "strict": strict}
    return {"type": "function", **definition}


def _in_chat(definition: Item) -> Item:
    kind = definition["type"]
    return {"type": kind, kind: {key: value for key, value in definition.items() if key != "type"}}


def _message(call_id: str, answer: ModelAnswer) -> Item:
    """Tool messages of Chat Completions take text only."""
    return {"role": "tool", "tool_call_id": call_id, "content": answer.text_alone}


def _output(call: Item, kind: str, call_id: str, answer: ModelAnswer) -> Item:
    output: str | list[Item] = answer.text
    if answer.images:
        pictures = [{"type": "input_image", "image_url": image.url, "detail": "auto"} for image in answer.images]
        output = [{"type": "input_text", "text": answer.text}, *pictures]
    # A call that a hosted program made is answered to that program.
    caller = {"caller": call["caller"]} if call.get("caller") else {}
    return {"type": kind, "call_id": call_id, "output": output, **caller}
