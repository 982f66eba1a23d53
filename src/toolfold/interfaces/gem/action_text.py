"""Text format of gem's tool calls: parsing of actions, responses, and instructions for the model."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from toolfold.interfaces.tool_prompt import tools_text
from toolfold.models import Json, ToolSpec

FiveValues: TypeAlias = tuple[bool, bool, str, str, str]
"""`(tool_parsed, tool_execute_error, observation, returned_tool_name, returned_tool_call_id)`"""
_BEGIN: Final = re.compile(r"<tool_call>\s*<tool_name>([^<]+)</tool_name>\s*<arguments>\s*")
_END: Final = re.compile(r"\s*</arguments>\s*</tool_call>")
_JSON: Final = json.JSONDecoder()
_BUDGET_CHARACTERS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call found in what the model wrote."""

    text: str
    name: str
    arguments: Mapping[str, Json] | None
    """`None`: they are not a JSON object."""


def parse_action(action: str) -> Action | None:
    begin = _BEGIN.search(action)
    if begin is None:
        return None
    arguments, end = _arguments(action, begin.end())
    if end is None:
        return None
    return Action(action[begin.start() : end.end()], begin[1].strip(), arguments)


def _arguments(action: str, at: int) -> tuple[dict[str, Json] | None, re.Match[str] | None]:
    """The arguments, and where the call ends: the marks may also stand in a text within the JSON."""
    empty = _END.match(action, at)
    if empty is not None:
        return {}, empty
    try:
        arguments, after = _JSON.raw_decode(action, at)
    except (ValueError, RecursionError):
        return None, _END.search(action, at)
    end = _END.match(action, after)
    if end is None:
        return None, _END.search(action, after)
    return arguments if isinstance(arguments, dict) else None, end


class ActionTool(ABC):
    """A tool object whose calls gem's `ToolEnvWrapper` finds in the text of an action."""

    num_workers = 1

    @abstractmethod
    def execute_tool(self, tool_name: str, tool_args: dict[str, Json], tool_call_id: str) -> FiveValues:
        """Serve one call."""

    @abstractmethod
    def get_available_tools(self) -> list[dict[str, Json]]:
        """The tools of this object, as gem's `MCPTool` lists them."""

    def execute_action(self, action: str) -> tuple[bool, bool, str, str]:
        """The same for gem's `ToolEnvWrapper`: the call is in the text of an action, and there are four values."""
        call = parse_action(action)
        if call is None or call.name not in [tool["name"] for tool in self.get_available_tools()]:
            return False, True, "", ""
        has_error, observation = True, "the arguments are not a JSON object"
        if call.arguments is not None:
            _, has_error, observation, _, _ = self.execute_tool(call.name, dict(call.arguments), "")
        return True, has_error, f"\n<tool_response>\n{observation}\n</tool_response>\n", call.text


def instructions(title: str, definitions: Sequence[Mapping[str, Json]], example: Mapping[str, Json]) -> str:
    """How to call the tools of one object; `example` holds the arguments of a call of the first."""
    keys = ("name", "description", "parameters")
    functions = [{key: definition[key] for key in keys} for definition in definitions]
    return "\n".join(
        [f"# {title}", "", "Write a tool call in this form, one in a message, with the arguments as one JSON object:",
         "", "<tool_call>", f"<tool_name>{definitions[0]['name']}</tool_name>", "<arguments>", json.dumps(example),
         "</arguments>", "</tool_call>", "", "<tools>",
         *(json.dumps({"type": "function", "function": function}) for function in functions), "</tools>"]
    )  # fmt: skip


def callable_tools(tools: Sequence[ToolSpec]) -> str:
    signatures = tools_text(tools, budget_characters=_BUDGET_CHARACTERS)
    return f"Programs can also call these as `tools.<name>(...)`, without `await`. {signatures}"
