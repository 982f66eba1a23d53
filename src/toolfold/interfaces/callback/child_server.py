"""MCP server of the child: the tool, the extension's method, and registration with another server.

A server opens `CallbackExecutions` beside its runtime, calls `register`, and adds `TOOL` to what it lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding, compose_tool_call_handler
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolfold.errors import UsageError
from toolfold.interfaces.callback.child_programs import DEFAULT_SECONDS, CallbackExecutions, CallbackRequest, ListedTool
from toolfold.interfaces.callback.messages import (
    EXTENSION,
    RESUME,
    TOOL_NAME,
    WORKSPACE,
    CallsResult,
    Frame,
    ResumeParams,
    ResumeResult,
    error_json,
)
from toolfold.runtime import Runtime, RuntimeSettings

DESCRIPTION: Final = """\
Run a Python program that calls tools in loops, conditions and chains. Intermediate results stay out of the \
conversation: you get what the program prints and the value of `result`.

Call a tool as a function of `tools`, with keyword arguments: `files = tools.list_files(path=".")`. A call waits for \
its result; a result that is JSON is already parsed. To run calls at the same time: \
`await asyncio.gather(tools.read_file(path="a"), tools.read_file(path="b"))`. A failing tool raises `ToolError`.

Set `result` to what you want back. Do not use this for a single call: call that tool directly."""


class Arguments(BaseModel):
    """The arguments of `programmatic_tool_calling`."""

    model_config = ConfigDict(populate_by_name=True, extra="forbid", title=TOOL_NAME)

    code: str = Field(description="The program.")
    filename: str | None = Field(None, description="Saves the program under this name in the workspace's .python_tmp.")
    timeout: float = Field(DEFAULT_SECONDS, description="Seconds for the program and all its calls.")
    tools_available: list[str | ListedTool] | None = Field(
        None, alias="_tools_available", description="Offers only these tools to the program."
    )


TOOL: Final = types.Tool(name=TOOL_NAME, description=DESCRIPTION, input_schema=Arguments.model_json_schema())

# Any: the context of a server with whatever lifespan.
FindExecutions: TypeAlias = Callable[[ServerRequestContext[Any, Any]], CallbackExecutions]


class ParentCallback(Extension):
    """Programs in this server call tools of the process that started it.

    Args:
        find: Gives the executions of a request's server, which are open only while it runs.
        any_workspace: Whether the caller may say where a program is saved: only where it started this process.
    """

    identifier = EXTENSION

    def __init__(self, find: FindExecutions, *, any_workspace: bool = False) -> None:
        self._find = find
        self._any_workspace = any_workspace

    def methods(self) -> list[MethodBinding]:
        return [MethodBinding(RESUME, ResumeParams, self._resume)]

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Serve the one tool; a client without the extension gets programs without a parent's tools."""
        if params.name != TOOL_NAME:
            return await call_next(ctx)
        try:
            request = parse_request(params.arguments or {}, self._workspace(params))
        except UsageError as error:
            return refusal_result(error)
        execution_id, result = await self._find(ctx).begin(request, has_parent=_has_extension(ctx))
        if result.final is not None:
            return final_result(result.final, has_failed=result.has_failed)
        return CallsResult(execution_id=execution_id, calls=result.calls, seconds_left=result.seconds_left)

    def _workspace(self, params: types.CallToolRequestParams) -> Path | None:
        workspace = (params.meta or {}).get(WORKSPACE) if self._any_workspace else None
        return Path(workspace) if isinstance(workspace, str) else None

    # Any: a `RequestHandler` of the SDK takes the params type that it is bound with.
    async def _resume(self, ctx: ServerRequestContext[Any, Any], params: Any) -> ResumeResult:
        executions = self._find(ctx)
        if params.is_given_up:
            await executions.cancel(params.execution_id)
            return ResumeResult()
        try:
            return await executions.resume(params.execution_id, params.replies)
        except UsageError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except asyncio.CancelledError:
            await asyncio.shield(executions.cancel(params.execution_id))
            raise


# Any: a server's lifespan value is its own business.
def register(server: Server[Any], callback: ParentCallback) -> None:
    """Add the callback to a lower-level server that already serves `tools/call`; list `TOOL` beside its tools."""
    entry = server.get_request_handler("tools/call")
    if entry is None:
        raise UsageError("the server has no handler for tools/call; give it one before the callback is registered")
    for method in callback.methods():
        server.add_request_handler(method.method, method.params_type, method.handler)
    handler = compose_tool_call_handler([callback], entry.handler)
    server.add_request_handler("tools/call", types.CallToolRequestParams, handler)
    server.extensions[callback.identifier] = callback.settings()


def make_server(workspace: Path, *, engine: str = "auto", any_workspace: bool = False) -> Server[CallbackExecutions]:
    """A server that has this tool only, with a runtime of its own."""

    @asynccontextmanager
    async def lifespan(_: Server[CallbackExecutions]) -> AsyncIterator[CallbackExecutions]:
        async with Runtime(engine=engine, settings=RuntimeSettings(entry_name=TOOL_NAME, interface="mcp")) as runtime:
            yield CallbackExecutions(runtime, workspace=workspace)

    async def list_tools(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[TOOL])

    async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        raise MCPError(types.INVALID_PARAMS, f"no tool {params.name!r}; there is {TOOL_NAME!r}")

    server = Server("toolfold", lifespan=lifespan, on_list_tools=list_tools, on_call_tool=call_tool)
    register(server, ParentCallback(lambda context: context.lifespan_context, any_workspace=any_workspace))
    return server


def parse_request(arguments: dict[str, Any], workspace: Path | None) -> CallbackRequest:
    """The request in the arguments of the tool; `UsageError` if one of them is wrong."""
    try:
        options = Arguments.model_validate(arguments)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"argument {location!r} of {TOOL_NAME!r}: {first['msg']}") from error
    return CallbackRequest(
        code=options.code, filename=options.filename, timeout_seconds=options.timeout,
        tools_available=options.tools_available, workspace=workspace,
    )  # fmt: skip


def _has_extension(ctx: ServerRequestContext[Any, Any]) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and EXTENSION in (capabilities.extensions or {})


def refusal_result(error: UsageError) -> types.CallToolResult:
    return final_result(error_json(error, Frame(timeout_seconds=DEFAULT_SECONDS)), has_failed=True)


def final_result(text: str, *, has_failed: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=has_failed)
