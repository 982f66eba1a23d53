"""Python functions as a tool object that gem's environments can call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from toolfold.doors.gem.actions import instructions, parse_action, respond
from toolfold.doors.gem.executor import FiveValues
from toolfold.errors import ToolError, UsageError
from toolfold.sources.functions import tool_from_function
from toolfold.tools.values import to_value


class LocalTools:
    """Some functions under one name. `execute_tool` is itself an executor."""

    tool_type = "local"
    num_workers = 1

    # Any: functions take and return what they like.
    def __init__(self, name: str, functions: Iterable[Callable[..., Any]]) -> None:
        self.name = name
        self._functions = {function.__name__: function for function in functions}
        self._tools = {name: tool_from_function(function) for name, function in self._functions.items()}

    def get_available_tools(self) -> list[dict[str, Any]]:
        """Names, descriptions and schemas, as gem's `MCPTool` lists them."""
        return [
            {
                "name": tool.spec.name,
                "description": tool.spec.description,
                "parameters": dict(tool.spec.input_schema),
                "output_schema": None if tool.spec.output_schema is None else dict(tool.spec.output_schema),
            }
            for tool in self._tools.values()
        ]

    # Any: arguments are JSON.
    def execute_tool(self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str) -> FiveValues:
        """Call a function; what it raises is an observation."""
        if tool_name not in self._functions:
            return False, True, f"Tool not found: {tool_name}", tool_name, tool_call_id
        prepare = self._tools[tool_name].prepare
        try:
            arguments = prepare(tool_args) if prepare is not None else tool_args
            value = self._functions[tool_name](**arguments)
        except (ToolError, UsageError) as error:
            return True, True, str(error), tool_name, tool_call_id
        # Whatever a tool raises, the program gets to read it.
        except Exception as error:  # noqa: BLE001
            return True, True, f"{type(error).__name__}: {error}", tool_name, tool_call_id
        text = value if isinstance(value, str) else json.dumps(to_value(value), ensure_ascii=False)
        return True, False, text, tool_name, tool_call_id

    def execute_action(self, action: str) -> tuple[bool, bool, str, str]:
        """The same for gem's `ToolEnvWrapper`: the call is in the text of an action, and there are four values."""
        found = parse_action(action)
        if found is None or found.name not in self._functions:
            return False, True, "", ""
        if found.arguments is None:
            return True, True, respond("the arguments are not a JSON object"), found.text
        _, has_error, observation, _, _ = self.execute_tool(found.name, dict(found.arguments), "")
        return True, has_error, respond(observation), found.text

    def instruction_string(self) -> str:
        """What a model must know to call these tools directly."""
        listed = self.get_available_tools()
        example = dict.fromkeys(listed[0]["parameters"].get("required", ()), "...")
        return instructions(f"The tools of {self.name}", listed, example)
