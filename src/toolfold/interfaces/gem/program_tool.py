"""Tool object for `programmatic_tool_calling`: blocking calls, answered by the environment's executor."""

from __future__ import annotations

import asyncio
import json
import os
import site
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

import toolfold
from toolfold.errors import UsageError
from toolfold.interfaces.callback.child_programs import ListedTool, grant_tools
from toolfold.interfaces.callback.child_server import TOOL
from toolfold.interfaces.callback.messages import (
    EXTENSION,
    TOOL_NAME,
    WORKSPACE,
    CallsResult,
    OpenCall,
    ResumeParams,
    ResumeRequest,
    ResumeResult,
    ToolReply,
)
from toolfold.interfaces.gem.action_text import ActionTool, FiveValues, callable_tools, instructions
from toolfold.interfaces.gem.child_connection import Child, ChildConnection, ChildRunner, SharedConnection
from toolfold.models import Json

# ----------------------------------------------------------------------------------------------------
# Calls of the user's `tool_executor`: threads in, five values out, exceptions as words.

Executor: TypeAlias = Callable[[str, dict[str, Json], str], FiveValues | Generator[str, None, FiveValues]]
"""`executor(tool_name, tool_args, tool_call_id)`; a generator yields what its tool says while it runs."""
OnOutput: TypeAlias = Callable[[str, str, str], None]
"""`on_output(tool_name, tool_call_id, text)`"""

_PACKAGE_FOLDER: Final = os.path.dirname(__file__)
_MAX_CACHED_REPLIES: Final = 10_000
NO_EXECUTOR: Final = "there is no tool executor; pass tool_executor=... or call set_tool_executor(...)"


class CallHandler:
    """Serves calls with the executor of the moment."""

    def __init__(self, executor: Executor | None, on_output: OnOutput | None, cache_seconds: float = 0.0) -> None:
        self.executor = executor
        self.on_output = on_output
        self._cache_seconds = cache_seconds
        self._cache: dict[tuple[int, str, str], tuple[float, ToolReply]] = {}
        """Replies and until when they hold, by executor, tool and arguments."""

    async def answer(self, call: OpenCall) -> ToolReply:
        """One call, in a thread of its own: an executor may block for as long as it likes."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ToolReply] = loop.create_future()

        def deliver(reply: ToolReply) -> None:
            if not future.done():
                future.set_result(reply)

        def work() -> None:
            reply = self._reply(call)
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(deliver, reply)

        # No pool: its threads are waited for when Python ends, and one that is stuck would be for ever.
        threading.Thread(target=work, name=f"toolfold-{call.name}", daemon=True).start()
        return await future

    def _reply(self, call: OpenCall) -> ToolReply:
        if self.executor is None:
            return _failure_reply(call, NO_EXECUTOR)
        if self._cache_seconds <= 0:
            return self._fetch(call)
        key = (id(self.executor), call.name, json.dumps(call.arguments, sort_keys=True))
        until, cached_reply = self._cache.get(key, (0.0, None))
        if cached_reply is not None and time.monotonic() < until:
            return cached_reply.model_copy(update={"id": call.id})
        reply = self._fetch(call)
        if not reply.has_error:  # a failure may be over by the next call
            while len(self._cache) >= _MAX_CACHED_REPLIES:
                self._cache.pop(next(iter(self._cache)), None)
            self._cache[key] = (time.monotonic() + self._cache_seconds, reply)
        return reply

    def _fetch(self, call: OpenCall) -> ToolReply:
        assert self.executor is not None
        try:
            returned = self.executor(call.name, call.arguments, call.id)
            if isinstance(returned, Generator):
                returned = self._drain(call, returned)
        # A tool that calls `sys.exit` fails as any other; the program is told.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            return _failure_reply(call, _error_text(error), cause=_cause(error))
        return _check_values(call, returned)

    def _drain(self, call: OpenCall, pieces: Generator[str, None, FiveValues]) -> FiveValues:
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                # Any: what a generator returns is the executor's own; `_check_values` looks at it.
                returned: Any = end.value
                return returned  # type: ignore[no-any-return]
            if self.on_output is not None:
                self.on_output(call.name, call.id, piece)


def _check_values(call: OpenCall, returned: object) -> ToolReply:
    if not isinstance(returned, tuple | list) or len(returned) != 5:
        description = f"{len(returned)} values" if isinstance(returned, tuple | list) else type(returned).__name__
        return _failure_reply(call, f"the tool executor must return five values, and returned {description}")
    parsed, has_error, observation, *_ = returned
    text = observation if isinstance(observation, str) else json.dumps(observation, default=str, ensure_ascii=False)
    # Half a surrogate pair has no UTF-8 form and would break the wire.
    text = text.encode("utf-8", "backslashreplace").decode()
    return ToolReply(id=call.id, parsed=bool(parsed), has_error=bool(has_error) or not parsed, observation=text)


def _failure_reply(call: OpenCall, observation: str, *, cause: str = "") -> ToolReply:
    return ToolReply(id=call.id, parsed=True, has_error=True, observation=observation, cause=cause)


def _error_text(error: BaseException) -> str:
    text = str(error).encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _cause(error: BaseException) -> str:
    """The executor's own lines, without ours; of its files only the names, for a model reads this."""
    parts = traceback.TracebackException.from_exception(error, compact=True)
    part: traceback.TracebackException | None = parts
    while part is not None:
        part.stack = traceback.StackSummary.from_list(
            [_with_base_name(frame) for frame in part.stack if os.path.dirname(frame.filename) != _PACKAGE_FOLDER]
        )
        part = part.__cause__ or part.__context__
    return "".join(parts.format()).encode("utf-8", "backslashreplace").decode()


def _with_base_name(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    name = os.path.basename(frame.filename)
    return traceback.FrameSummary(name, frame.lineno, frame.name, lookup_line=False, line=frame.line or "")


class ExecutesTools(Protocol):
    """A tool object of an environment; its method is an `Executor`."""

    def execute_tool(
        self, tool_name: str, tool_args: dict[str, Json], tool_call_id: str
    ) -> FiveValues | Generator[str, None, FiveValues]: ...


class ProgrammaticToolCallingTool(ActionTool):
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

    def __init__(
        self, line: ChildRunner, *, tool_executor: Executor | None = None, validate_on_init: bool = False,
        on_output: OnOutput | None = None, describe_failure: Callable[[], str] = str, workspace: Path | None = None,
        cache_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        if not cache_seconds >= 0:
            raise UsageError(f"cache_seconds must be 0 or more, got {cache_seconds!r}")
        self._call_handler = CallHandler(tool_executor, on_output, cache_seconds)
        self._link = line
        self._meta: Any = None if workspace is None else {WORKSPACE: str(workspace)}
        self._describe_failure = describe_failure
        self._finalizer = weakref.finalize(self, self._link.close)
        if validate_on_init:
            self._validate()

    def execute_tool(self, tool_name: str, tool_args: dict[str, Json], tool_call_id: str) -> FiveValues:
        """Run a program to its end: gem's five values, with the outcome's JSON as the observation."""
        if tool_name != TOOL_NAME:
            return False, True, f"Tool not found: {tool_name}", tool_name, tool_call_id
        arguments = dict(tool_args)
        listed = self._offered_tools(arguments.get("_tools_available"))
        if listed is not None:
            arguments["_tools_available"] = listed
        try:
            result = self._link.run(lambda client: self._call(client, arguments))
        except (MCPError, OSError, RuntimeError, ExceptionGroup) as error:
            return True, True, f"{self._failure(error)}; tools may have been called", tool_name, tool_call_id
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        return True, bool(result.is_error), text, tool_name, tool_call_id

    def instruction_string(self) -> str:
        """What a model must know to use this tool."""
        example = {"code": 'files = tools.list_files(path=".")\nresult = len(files)'}
        text = instructions("Programs that call tools", self.get_available_tools(), example)
        listed = [ListedTool.model_validate(entry) for entry in self._offered_tools(None) or ()]
        return f"{text}\n\n{callable_tools(grant_tools('', listed, ()))}" if listed else text

    def get_available_tools(self) -> list[dict[str, Json]]:
        """The one tool, as gem's `MCPTool` lists it."""
        return [{"name": TOOL_NAME, "description": TOOL.description or "", "parameters": TOOL.input_schema}]

    def set_tool_executor(self, tool_executor: Executor | None) -> None:
        """Calls from now on go there."""
        self._call_handler.executor = tool_executor

    def set_tools(self, tools: Iterable[ExecutesTools]) -> None:
        """Calls from now on go to the first of these objects that takes them."""
        self._call_handler.executor = _CombinedExecutor([tool for tool in tools if tool is not self])

    def close(self) -> None:
        """End the child. Also happens when this object is dropped and when Python ends."""
        self._link.close()

    async def _call(self, client: Child, arguments: dict[str, Json]) -> CallToolResult:
        # In a task of this call's own, which all that answers it is started from.
        _current_handler.set(self._call_handler)
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
        last_output = self._describe_failure()
        return f"the connection to the child failed: {error}" + (f"; it said: {last_output}" if last_output else "")

    def _offered_tools(self, requested: Sequence[Json] | None) -> list[Json] | None:
        """What the program is offered: what the caller wants of what the executor has."""
        list_tools = getattr(self._call_handler.executor, "list_tools", None)
        entries_by_name = {entry["name"]: entry for entry in list_tools()} if callable(list_tools) else None
        if requested is None:
            return None if entries_by_name is None else list(entries_by_name.values())
        return [(entries_by_name or {}).get(entry, entry) if isinstance(entry, str) else entry for entry in requested]


_current_handler: ContextVar[CallHandler] = ContextVar("toolfold_gem_answers")


async def answer_current(call: OpenCall) -> ToolReply:
    """Serve a call with the executor of the tool whose program made it; a connection may have several."""
    return await _current_handler.get().answer(call)


class _CombinedExecutor:
    def __init__(self, tools: Sequence[ExecutesTools]) -> None:
        self._tools = tools

    def __call__(
        self, tool_name: str, tool_args: dict[str, Json], tool_call_id: str
    ) -> Generator[str, None, FiveValues]:
        for tool in self._tools:
            returned = tool.execute_tool(tool_name, tool_args, tool_call_id)
            if isinstance(returned, Generator):
                returned = yield from returned
            if returned[0]:
                return returned
        return False, True, f"Tool not found: {tool_name}", tool_name, tool_call_id

    def list_tools(self) -> list[dict[str, Json]]:
        listed: list[dict[str, Json]] = []
        for tool in self._tools:
            entries: list[dict[str, Json]] = getattr(tool, "get_available_tools", list)()
            listed += [{key: entry[key] for key in ListedTool.model_fields if key in entry} for entry in entries]
        return listed


# ----------------------------------------------------------------------------------------------------
# Tool objects with a child on stdio, or with one that is reached over HTTP.

_TAIL_CHARACTERS: Final = 500


def create_programmatic_tool_calling_tool_stdio(
    workspace_path: str | Path | None = None, tool_executor: Executor | None = None, validate_on_init: bool = False, *,
    engine: str = "auto", on_output: OnOutput | None = None, cache_seconds: float = 0.0,
) -> ProgrammaticToolCallingTool:  # fmt: skip
    """A tool whose child is started with the first program, and ends with this process.

    Tools of one process share one child, if they have the same engine and environment variables.

    Args:
        workspace_path: Where programs with a `filename` are saved; by default the current folder.
        tool_executor: Gets every tool call of a program.
        validate_on_init: Start the child now, and raise `UsageError` if that fails.
        engine: Where programs run, as in `toolfold.Runtime`.
        on_output: Gets what a generator executor yields.
        cache_seconds: How long a reply is given again to the same call, for tools that only read; 0 is not at all.
    """
    workspace = Path(workspace_path or ".").absolute()
    if not workspace.is_dir():
        raise UsageError(f"workspace_path {str(workspace_path)!r} is not a folder; make it first")
    environment = _environment()
    key = (engine, tuple(sorted(environment.items())))
    last_output = _last_outputs.setdefault(key, [""])
    return ProgrammaticToolCallingTool(
        SharedConnection(key, lambda: _child(engine, environment, last_output)), tool_executor=tool_executor,
        validate_on_init=validate_on_init, on_output=on_output, describe_failure=lambda: last_output[0],
        workspace=workspace, cache_seconds=cache_seconds,
    )  # fmt: skip


_last_outputs: dict[Hashable, list[str]] = {}


@asynccontextmanager
async def _child(engine: str, environment: dict[str, str], last_output: list[str]) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        # Each program says where it is saved; this folder is only one that is there.
        args=["-m", "toolfold.interfaces.callback", "--workspace", tempfile.gettempdir(), "--engine", engine],
        env=environment,
    )
    # The child's stderr must be a real file.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        try:
            transport = stdio_client(parameters, errlog=errors)
            async with Client(transport, extensions=[ParentTools(answer_current)]) as client:
                yield client
        finally:
            errors.seek(0)
            last_output[0] = errors.read()[-_TAIL_CHARACTERS:].strip()


def create_programmatic_tool_calling_tool_http(
    host: str = "127.0.0.1", port: int = 8085, tool_executor: Executor | None = None, validate_on_init: bool = True, *,
    url: str | None = None, headers: Mapping[str, str] | None = None, on_output: OnOutput | None = None,
    cache_seconds: float = 0.0,
) -> ProgrammaticToolCallingTool:  # fmt: skip
    """A tool whose child runs already: `python -m toolfold.interfaces.callback --transport streamable-http`.

    Args:
        host: Where it listens.
        port: The same.
        tool_executor: Gets every tool call of a program.
        validate_on_init: Connect now, and raise `UsageError` if that fails.
        url: Its whole address, instead of host and port.
        headers: For every request, such as `Authorization`.
        on_output: Gets what a generator executor yields.
        cache_seconds: How long a reply is given again to the same call, for tools that only read; 0 is not at all.
    """
    address = url or f"http://{host}:{port}/mcp"

    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        # Programs may take minutes between two bytes; their own timeout ends them.
        async with (
            httpx2.AsyncClient(headers=dict(headers or {}), timeout=httpx2.Timeout(30, read=None)) as web,
            Client(
                streamable_http_client(address, http_client=web, max_sse_event_size=None),
                extensions=[ParentTools(answer_current)],
            ) as client,
        ):
            yield client

    return ProgrammaticToolCallingTool(
        ChildConnection(connect), tool_executor=tool_executor, validate_on_init=validate_on_init, on_output=on_output,
        cache_seconds=cache_seconds,
    )  # fmt: skip


def _environment() -> dict[str, str]:
    """The user's own, with this package where it was not installed but found on the path."""
    folder = str(Path(toolfold.__file__).parents[1])
    environment = dict(os.environ)
    if folder not in (*site.getsitepackages(), site.getusersitepackages()):
        python_path = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = f"{folder}{os.pathsep}{python_path}" if python_path else folder
    return environment


# ----------------------------------------------------------------------------------------------------
# Parent side of the callback extension: answers the child's calls until the program has ended.

_LINGER_SECONDS: Final = 0.002
"""Replies that come this soon after another share its message: a `gather` needs few messages then."""
_GOODBYE_SECONDS: Final = 1.0
_AT_ONCE: Final = 64
"""Calls of one program that are answered at the same time; the others wait."""


class ParentTools(ClientExtension):
    """Pass it to `mcp.Client(extensions=[...])`.

    Args:
        answer: Serves one call. Calls run at the same time; it must not raise and not block the loop.
    """

    identifier = EXTENSION

    def __init__(self, answer: Callable[[OpenCall], Awaitable[ToolReply]]) -> None:
        self._answer = answer

    # Any: the claim's own model is its type.
    def claims(self) -> Sequence[ResultClaim[Any]]:
        """A tool's result may be open calls instead."""
        return [ResultClaim(result_type="toolfold/calls", model=CallsResult, resolve=self._resolve)]

    async def _resolve(self, first: CallsResult, context: ClaimContext) -> CallToolResult:
        conversation = _Conversation(context.session, first.execution_id, self._answer)
        try:
            result = await conversation.run(ResumeResult(calls=first.calls, seconds_left=first.seconds_left))
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GOODBYE_SECONDS):
                await conversation.cancel()
            raise
        finally:
            conversation.close()
        return CallToolResult(content=[TextContent(text=result.final or "")], is_error=result.has_failed)


class _Conversation:
    def __init__(
        self, session: ClientSession, execution_id: str, answer: Callable[[OpenCall], Awaitable[ToolReply]]
    ) -> None:
        self._session = session
        self._execution_id = execution_id
        self._answer = answer
        self._running: set[asyncio.Task[ToolReply]] = set()
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def run(self, step: ResumeResult) -> ResumeResult:
        while step.final is None:
            self._running |= {asyncio.create_task(self._reply(call)) for call in step.calls}
            replies = await self._some_replies(step.seconds_left)
            step = await self._resume(ResumeParams(execution_id=self._execution_id, replies=replies))
        return step

    async def _reply(self, call: OpenCall) -> ToolReply:
        async with self._room:
            return await self._answer(call)

    async def _some_replies(self, seconds: float) -> list[ToolReply]:
        """At least one, unless the program's time is over first."""
        done, rest = await asyncio.wait(self._running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        while done and rest:
            more, rest = await asyncio.wait(rest, timeout=_LINGER_SECONDS, return_when=asyncio.ALL_COMPLETED)
            done |= more
            if not more:
                break
        self._running -= done
        return [task.result() for task in done]

    async def _resume(self, params: ResumeParams) -> ResumeResult:
        return await self._session.send_request(ResumeRequest(params=params), ResumeResult)

    async def cancel(self) -> None:
        await self._resume(ResumeParams(execution_id=self._execution_id, is_given_up=True))

    def close(self) -> None:
        for task in self._running:
            task.cancel()
