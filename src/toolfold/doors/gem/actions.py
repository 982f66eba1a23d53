"""gem's dialect: tool calls as XML-like text in an action, and the words that teach a model to write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolfold.models import ToolSpec
from toolfold.program.stubs import prompt_text

_CALL: Final = re.compile(
    r"<tool_call>\s*<tool_name>([^<]+)</tool_name>\s*<arguments>(.*?)</arguments>\s*</tool_call>", re.DOTALL
)
_BUDGET_CHARACTERS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call found in what the model wrote."""

    text: str
    name: str
    # Any: arguments are JSON.
    arguments: Mapping[str, Any] | None
    """`None`: they are not a JSON object."""


def parse_action(action: str) -> Action | None:
    """The first tool call in an action, if there is one."""
    match = _CALL.search(action)
    if match is None:
        return None
    try:
        arguments = json.loads(match[2].strip() or "{}")
    except ValueError:
        arguments = None
    return Action(match[0], match[1].strip(), arguments if isinstance(arguments, dict) else None)


# Any: a JSON schema.
def instructions(name: str, description: str, schema: Mapping[str, Any], tools: Sequence[ToolSpec]) -> str:
    """How to call the tool; with the signatures of the tools that its programs can call, where they are known."""
    function = {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
    lines = [
        "# Programs that call tools",
        "",
        f"Write `{name}` calls in this form, with the arguments as one JSON object:",
        "",
        "<tool_call>",
        f"<tool_name>{name}</tool_name>",
        "<arguments>",
        json.dumps({"code": 'files = tools.list_files(path=".")\nresult = len(files)'}),
        "</arguments>",
        "</tool_call>",
        "",
        "<tools>",
        json.dumps(function),
        "</tools>",
    ]
    if tools:
        signatures = prompt_text(tools, budget_characters=_BUDGET_CHARACTERS)
        lines += ["", "Programs can call these tools, as `tools.<name>(...)`:", "", signatures.rstrip()]
    return "\n".join(lines)
