"""Tool objects over Python functions for gem's environments: workspace files, and a memory of notes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from toolfold.errors import ToolError, UsageError
from toolfold.interfaces.gem.action_text import ActionTool, FiveValues, instructions
from toolfold.models import Json
from toolfold.sources.function_tools import tool_from_function
from toolfold.tools.sendable_values import to_value


class LocalTools(ActionTool):
    """Some functions under one name. `execute_tool` is itself an executor."""

    tool_type = "local"

    # Any: functions take and return what they like.
    def __init__(self, name: str, functions: Iterable[Callable[..., Any]]) -> None:
        self.name = name
        self._functions = {function.__name__: function for function in functions}
        self._tools = {name: tool_from_function(function) for name, function in self._functions.items()}

    def get_available_tools(self) -> list[dict[str, Json]]:
        """Names, descriptions and schemas, as gem's `MCPTool` lists them."""
        return [
            {"name": tool.spec.name, "description": tool.spec.description, "parameters": dict(tool.spec.input_schema),
             "output_schema": None if tool.spec.output_schema is None else dict(tool.spec.output_schema)}
            for tool in self._tools.values()
        ]  # fmt: skip

    def execute_tool(self, tool_name: str, tool_args: dict[str, Json], tool_call_id: str) -> FiveValues:
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

    def instruction_string(self) -> str:
        """What a model must know to call these tools directly."""
        listed = self.get_available_tools()
        example = dict.fromkeys(listed[0]["parameters"].get("required", ()), "...")
        return instructions(f"The tools of {self.name}", listed, example)


# ----------------------------------------------------------------------------------------------------
# Files of a workspace as tools: nothing outside of it can be reached by a path.


def create_filesystem_tool(workspace_path: str | Path = ".") -> LocalTools:
    """`list_files`, `read_file`, `write_file`, `delete_file`, `make_folder` under one folder."""
    root = Path(workspace_path).resolve()

    def resolve(path: str) -> Path:
        target = (root / path).resolve()  # follows links, so that one which leads out is seen
        if not target.is_relative_to(root):
            raise ToolError(f"path {path!r} leads out of the workspace")
        return target

    def resolve_existing(path: str) -> Path:
        target = resolve(path)
        if not target.exists():
            raise ToolError(f"no file or folder {path!r}")
        return target

    def list_files(path: str = ".") -> list[str]:
        """Names of the files and folders in a folder; folders end in a slash."""
        folder = resolve_existing(path)
        if not folder.is_dir():
            raise ToolError(f"{path!r} is a file")
        # What begins with a dot is not shown: saved programs are in such a folder.
        entries = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
        return sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)

    def read_file(path: str) -> str:
        """The text of a file."""
        target = resolve_existing(path)
        if target.is_dir():
            raise ToolError(f"{path!r} is a folder")
        return target.read_text(encoding="utf-8")

    def write_file(path: str, content: str) -> str:
        """Write a text file; folders on the way are made."""
        target = resolve(path)
        if target.is_dir():
            raise ToolError(f"{path!r} is a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
        return f"wrote {len(content)} characters to {path}"

    def delete_file(path: str) -> str:
        """Delete one file."""
        target = resolve_existing(path)
        if target.is_dir():
            raise ToolError(f"{path!r} is a folder")
        target.unlink()
        return f"deleted {path}"

    def make_folder(path: str) -> str:
        """Make a folder, and those it is in."""
        resolve(path).mkdir(parents=True, exist_ok=True)
        return f"made {path}"

    return LocalTools("filesystem", [list_files, read_file, write_file, delete_file, make_folder])


# ----------------------------------------------------------------------------------------------------
# Notes that live as long as the tool object, for agents that work in several steps.


def create_memory_tool() -> LocalTools:
    """`remember`, `recall`, `list_memories`, `forget`."""
    notes: dict[str, Json] = {}
    lock = threading.Lock()

    def remember(key: str, value: Any) -> str:
        """Keep a value under a key; an older one is replaced."""
        with lock:
            notes[key] = value
        return f"remembered {key}"

    def recall(key: str) -> Any:
        """The value under a key."""
        with lock:
            if key not in notes:
                raise ToolError(f"nothing is remembered under {key!r}")
            return notes[key]

    def list_memories() -> list[str]:
        """All keys, in alphabetical order."""
        with lock:
            return sorted(notes)

    def forget(key: str) -> bool:
        """Drop a key; false if it was not there."""
        with lock:
            return notes.pop(key, None) is not None

    return LocalTools("memory", [remember, recall, list_memories, forget])
