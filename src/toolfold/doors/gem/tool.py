"""`programmatic_tool_calling` as a tool object: blocking, for environments that know no event loop."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from mcp import MCPError
from mcp_types import CallToolResult, TextContent

from toolfold.doors.callback.grants import ListedTool, granted
from toolfold.doors.callback.server import TOOL
from toolfold.doors.callback.wire import TOOL_NAME, WORKSPACE, OpenCall, ToolReply
from toolfold.doors.gem.actions import callable_tools, instructions, parse_action, respond
from toolfold.doors.gem.executor import Answers, Executor, FiveValues, OnOutput
from toolfold.doors.gem.link import Child
from toolfold.doors.gem.sharing import Line
from toolfold.errors import UsageError
from toolfold.models import ToolSpec


class ExecutesTools(Protocol):
    """A tool object of an environment; its method is an `Executor`."""

    # Any: arguments are JSON.
    def execute_tool(
        self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str
    ) -> FiveValues | Generator[str, None, FiveValues]: ...


class ProgrammaticToolCallingTool:
    """Runs programs in a child process; each tool call in them comes back here, to the executor.

    Several programs may run at once, from several threads. Each executor call has a thread of its own.

    Args:
        line: The way to the child; its connection needs the extension `ParentTools(answer_current)`.
        tool_executor: See `Executor`; may be set later. One with a method or attribute function
            `list_tools` that returns `get_available_tools` entries also lets programs be checked
            before they run.
        on_output: Gets what a generator executor yields, while its tool runs.
        describe_failure: Adds to an error of the connection what the child said last.
        workspace: Where programs are saved, for a child that others use, too.
    """

    name = TOOL_NAME
    tool_type = "programmatic_tool_calling"
    num_workers = 1

    def __init__(
        self,
        line: Line,
        *,
        tool_executor: Executor | None = None,
        validate_on_init: bool = False,
        on_output: OnOutput | None = None,
        describe_failure: Callable[[], str] = str,
        workspace: Path | None = None,
        cache_seconds: float = 0.0,
    ) -> None:
        if not cache_seconds >= 0:
            raise UsageError(f"cache_seconds must be 0 or more, got {cache_seconds!r}")
        self._answers = Answers(tool_executor, on_output, cache_seconds)
        self._link = line
        self._meta: Any = None if workspace is None else {WORKSPACE: str(workspace)}
        self._describe_failure = describe_failure
        self._finalizer = weakref.finalize(self, self._link.close)
        if validate_on_init:
            self._validate()

    # what environments call

    # Any: arguments are JSON.
    def execute_tool(self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str) -> FiveValues:
        """Run a program to its end: gem's five values, with the outcome's JSON as the observation."""
        if tool_name != TOOL_NAME:
            return False, True, f"Tool not found: {tool_name}", tool_name, tool_call_id
        arguments = dict(tool_args)
        listed = self._listed(arguments.get("_tools_available"))
        if listed is not None:
            arguments["_tools_available"] = listed
        try:
            result = self._link.run(lambda client: self._call(client, arguments))
        except (MCPError, OSError, RuntimeError, ExceptionGroup) as error:
            return True, True, f"{self._failure(error)}; tools may have been called", tool_name, tool_call_id
        return True, bool(result.is_error), _text(result), tool_name, tool_call_id

    def execute_action(self, action: str) -> tuple[bool, bool, str, str]:
        """The same for gem's `ToolEnvWrapper`: the call is in the text of an action, and there are four values."""
        found = parse_action(action)
        if found is None or found.name != TOOL_NAME:
            return False, True, "", ""
        if found.arguments is None:
            return True, True, respond("the arguments are not a JSON object"), found.text
        _, has_error, observation, _, _ = self.execute_tool(TOOL_NAME, dict(found.arguments), "")
        return True, has_error, respond(observation), found.text

    def instruction_string(self) -> str:
        """What a model must know to use this tool."""
        example = {"code": 'files = tools.list_files(path=".")\nresult = len(files)'}
        text = instructions("Programs that call tools", self.get_available_tools(), example)
        specs = self._specs()
        return f"{text}\n\n{callable_tools(specs)}" if specs else text

    # Any: JSON schemas.
    def get_available_tools(self) -> list[dict[str, Any]]:
        """The one tool, as gem's `MCPTool` lists it."""
        return [{"name": TOOL_NAME, "description": TOOL.description or "", "parameters": TOOL.input_schema}]

    def set_tool_executor(self, tool_executor: Executor | None) -> None:
        """Calls from now on go there."""
        self._answers.executor = tool_executor

    def set_tools(self, tools: Iterable[ExecutesTools]) -> None:
        """Calls from now on go to the first of these objects that takes them."""
        self._answers.executor = _First([tool for tool in tools if tool is not self])

    def close(self) -> None:
        """End the child. Also happens when this object is dropped and when Python ends."""
        self._link.close()

    # its parts

    # Any: arguments are JSON.
    async def _call(self, client: Child, arguments: dict[str, Any]) -> CallToolResult:
        # In a task of this call's own, which all that answers it is started from.
        _answers.set(self._answers)
        return await client.call_tool(TOOL_NAME, arguments, meta=self._meta)

    def _validate(self) -> None:
        try:
            listed = self._link.run(lambda client: client.list_tools())
        except (MCPError, OSError, RuntimeError, ExceptionGroup) as error:
            self.close()
            raise UsageError(self._failure(error)) from error
        if TOOL_NAME not in (tool.name for tool in listed.tools):
            self.close()
            raise UsageError(f"the server has no tool {TOOL_NAME!r}; start it with the callback")

    def _failure(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        said = self._describe_failure()
        return f"the connection to the child failed: {error}" + (f"; it said: {said}" if said else "")

    # Any: entries are names or `get_available_tools` dicts.
    def _listed(self, wanted: Sequence[Any] | None) -> list[Any] | None:
        """What the program is offered: what the caller wants of what the executor has."""
        list_tools = getattr(self._answers.executor, "list_tools", None)
        known = {entry["name"]: entry for entry in list_tools()} if callable(list_tools) else None
        if wanted is None:
            return None if known is None else list(known.values())
        return [(known or {}).get(entry, entry) if isinstance(entry, str) else entry for entry in wanted]

    def _specs(self) -> tuple[ToolSpec, ...]:
        listed = self._listed(None)
        return () if listed is None else granted("", [ListedTool.model_validate(one) for one in listed], ())


_answers: ContextVar[Answers] = ContextVar("toolfold_gem_answers")


async def answer_current(call: OpenCall) -> ToolReply:
    """Serve a call with the executor of the tool whose program made it; a connection may have several."""
    return await _answers.get().answer(call)


class _First:
    """An executor over tool objects."""

    def __init__(self, tools: Sequence[ExecutesTools]) -> None:
        self._tools = tools

    # Any: arguments are JSON.
    def __call__(
        self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str
    ) -> Generator[str, None, FiveValues]:
        for tool in self._tools:
            returned = tool.execute_tool(tool_name, tool_args, tool_call_id)
            if isinstance(returned, Generator):
                returned = yield from returned
            if returned[0]:
                return returned
        return False, True, f"Tool not found: {tool_name}", tool_name, tool_call_id

    # Any: JSON schemas.
    def list_tools(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        for tool in self._tools:
            entries: list[dict[str, Any]] = getattr(tool, "get_available_tools", list)()
            listed += [{key: one[key] for key in ListedTool.model_fields if key in one} for one in entries]
        return listed


def _text(result: CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, TextContent))
