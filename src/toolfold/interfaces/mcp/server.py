"""MCP server: client requests in, programs run, results out. Both eras of the protocol; knows no transport."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp.shared.exceptions import MCPError

import toolfold
from toolfold.errors import ToolfoldError, UsageError
from toolfold.interfaces.mcp import prompt_texts
from toolfold.interfaces.mcp.client_program import McpProgram
from toolfold.interfaces.mcp.client_sessions import (
    Clients,
    Context,
    can_ask,
    client_of,
    description_limit_for,
    is_legacy,
    name_of,
    owner_of,
)
from toolfold.interfaces.mcp.offered_tools import Offer
from toolfold.interfaces.mcp.outcome_results import ClientFiles, StoredFile, failed, reply_result, to_mcp, to_result
from toolfold.interfaces.mcp.program_tasks import (
    ANSWER_WAIT_SECONDS,
    Tasks,
    YieldPolicy,
    check_id,
    has_tasks,
    new_id,
    positive_seconds,
    remaining_seconds,
    stop_program,
    unknown_program,
    wait_for_program,
)
from toolfold.interfaces.tool_prompt import language_of
from toolfold.models import Limits, Outcome, RunNames
from toolfold.runtime import Runtime
from toolfold.service.owners import ClientExecutions, ExecutionLocks, spawn

if TYPE_CHECKING:
    from toolfold.sources.mcp.bridge import Bridge

CallToolResponse: TypeAlias = types.CallToolResult | types.InputRequiredResult | dict[str, Any]
"""Any: a task, for which the SDK has no type."""

NAME: Final = "toolfold"
FIRST_LIST_WAIT_SECONDS: Final = 1.0
"""How long the first `tools/list` waits for servers of which nothing is known from last time."""
_CAME_AT: Final[ContextVar[float]] = ContextVar("toolfold_came_at")
"""When the request of this task came; its client's clock has been running since."""
_SETTLE_SECONDS: Final = 0.05
"""Servers that come up together are told of together."""
_META: Final = {"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": 500_000}
_SEARCH_TOOL: Final = types.Tool(
    name=prompt_texts.SEARCH_NAME, description=prompt_texts.SEARCH_DESCRIPTION,
    input_schema=prompt_texts.SEARCH_SCHEMA, _meta=_META,
    annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
)  # fmt: skip
_WAIT_TOOL: Final = types.Tool(
    name=prompt_texts.WAIT_NAME, description=prompt_texts.WAIT_DESCRIPTION, input_schema=prompt_texts.WAIT_SCHEMA,
    _meta=_META,
)  # fmt: skip

_log: Final = logging.getLogger(__name__)


class McpServer:
    """The MCP server. Enter it first; leaving it ends every bridged server and every program.

    Programs that have yielded are the exception: where the ledger lasts, the next process goes on with them.

    Args:
        runtime: Runs the programs; entered here.
        offer: What they may call.
        limits: Of one program; a request may ask for less time.
        connect: Makes the bridge, once it is known what the client can do; `None` bridges nothing.
        clients: Shared with whoever makes the bridge.
        yielding: When programs answer before they have ended.
        holds: A folder in which processes that share the ledger tell each other which of those are theirs.
    """

    def __init__(
        self, runtime: Runtime, offer: Offer, *, limits: Limits | None = None, clients: Clients | None = None,
        connect: Callable[[Clients, Callable[[], None]], Bridge] | None = None, yielding: YieldPolicy | None = None,
        holds: Path | None = None,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._offer = offer
        self._limits = limits or Limits()
        self._clients = clients or Clients(is_alone=True)
        self._connect = connect
        self._files = ClientFiles()
        self._background: set[asyncio.Task[Any]] = set()
        self._spawn = partial(spawn, tasks=self._background)
        self._programs: ClientExecutions[McpProgram] = ClientExecutions(ExecutionLocks(holds), self._spawn)
        self._clients.programs = self._programs.live
        self._yielding = yielding or YieldPolicy()
        self._leaving = asyncio.Event()
        self._ready: asyncio.Future[None] | None = None
        self.extra_tools: list[types.Tool] = []
        """Tools that another part of the interface serves, told of beside its own."""
        self._has_listed = False
        self._is_telling = False
        self._changes = SubscriptionBus()
        self.server: Server[Any] = DeclaringServer(
            NAME,
            version=toolfold.__version__,
            instructions=prompt_texts.INSTRUCTIONS,
            on_list_tools=self._list_tools,
            # A task has a shape of its own, which the SDK sends as it is and has no type for.
            on_call_tool=self._call_tool,  # type: ignore[arg-type]
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_resource_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=ListenHandler(self._changes),
        )
        Tasks(self._programs, self._find, self._result).add_to(self.server)
        # What the client hands back is sealed: nobody resumes a program that is not theirs.
        security = RequestStateSecurity.ephemeral(ttl=ANSWER_WAIT_SECONDS)
        self.server.middleware += [RequestStateBoundary(security, default_audience=NAME), self._on_each_request]

    def options(self) -> InitializationOptions:
        """Options of the older era's handshake."""
        return self.server.create_initialization_options()

    async def __aenter__(self) -> Self:
        # In the background: a client's first request must not wait for the sandbox.
        self._ready = self._enter_in_background(self._runtime)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._programs.close()
        self._leaving.set()
        if self._background:
            await asyncio.wait(self._background)
        self._programs.locks.close()

    async def connect(self) -> None:
        """Begin to connect the bridged servers; once, and without waiting for any of them."""
        if self._connect is not None:
            make, self._connect = self._connect, None
            servers = make(self._clients, self._servers_changed)
            self._clients.servers = servers
            await self._enter_in_background(servers)
            self._offer.bridge(servers)

    def _enter_in_background(self, manager: AbstractAsyncContextManager[object]) -> asyncio.Future[None]:
        """Entered and left in a task of its own, because both must happen in one; done once it is entered."""
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Marks an error as seen, also where nobody waits for it.
        entered.add_done_callback(lambda future: future.cancelled() or future.exception())

        async def keep() -> None:
            try:
                async with manager:
                    entered.set_result(None)
                    await self._leaving.wait()
            # It belongs to those who wait for the context; they raise it.
            except Exception as error:
                if entered.done():
                    raise
                _log.error("%s", error)
                entered.set_exception(error)

        self._spawn(keep())
        return entered

    # tools

    async def _list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if not self._has_listed:
            self._has_listed = True
            await self._offer.wait_for_unknown(FIRST_LIST_WAIT_SECONDS)
            await self._read_files()
        await self._offer.describing.meet(client_of(context))
        description, is_all = self._offer.description(description_limit_for(context), client_of(context))
        # A client with tasks waits for programs itself.
        tells_to_wait = self._yielding.after_seconds is not None and not has_tasks(context)
        describing = self._offer.describing
        schema = prompt_texts.program_schema(
            self._limits.wall_seconds, is_contract=describing.is_contract, yields=tells_to_wait,
            has_bash=bool(describing.bash_rule),
        )  # fmt: skip
        tools = [types.Tool(name=prompt_texts.ENTRY_NAME, description=description, input_schema=schema, _meta=_META)]
        if not is_all:
            tools.append(_SEARCH_TOOL)
        if tells_to_wait:
            tools.append(_WAIT_TOOL)
        offered = [
            types.Tool(
                name=spec.name, description=spec.description, input_schema=dict(spec.input_schema),
                annotations=types.ToolAnnotations(read_only_hint=True),
            )
            for spec in self._offer.small(client_of(context))
        ]  # fmt: skip
        return types.ListToolsResult(tools=[*tools, *offered, *self.extra_tools])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> CallToolResponse:
        arguments = params.arguments or {}
        try:
            if params.name == prompt_texts.SEARCH_NAME:
                return await self._search(arguments)
            if any(params.name == spec.name for spec in self._offer.small(client_of(context))):
                names = RunNames.within(params.meta or {}, "toolfold/")
                return reply_result(await self._offer.call(params.name, arguments, names))
            if params.name not in (prompt_texts.ENTRY_NAME, prompt_texts.WAIT_NAME):
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
            is_wait = params.name == prompt_texts.WAIT_NAME
            if params.request_state is None and is_wait:
                return await self._wait(context, arguments)
            seconds = self._yielding.seconds_for(arguments.get("yield_after_seconds"))
            if params.request_state is not None:
                program = self._come_back(params)
            else:
                names = RunNames.within(params.meta or {}, "toolfold/")
                program = await self._start(context, arguments, names, is_durable=seconds is not None)
            now = asyncio.get_running_loop().time()
            seconds = remaining_seconds(seconds, now - _CAME_AT.get(now))
            return await self._serve(context, program, seconds, is_wait=is_wait)
        except ToolfoldError as error:
            return to_mcp(error)

    async def _search(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        query, detail = arguments.get("query"), arguments.get("detail", "signature")
        if not isinstance(query, str):
            return failed(f"query must be text, got {query!r}")
        if detail not in ("name", "signature", "full"):
            return failed(f"detail must be 'name', 'signature' or 'full', got {detail!r}")
        return types.CallToolResult(content=[types.TextContent(text=await self._offer.search(query, detail))])

    # programs

    async def _start(
        self, context: Context, arguments: Mapping[str, Any], names: RunNames, *, is_durable: bool
    ) -> McpProgram:
        text, session, seconds = _parse_arguments(arguments, self._limits.wall_seconds)
        language = language_of(arguments.get("language"), self._runtime)
        assert self._ready is not None
        self._ready.result()  # raises where the sandbox is not available
        await self._offer.wait_for_mentioned(text)
        session = f"{client_of(context)}/{session}" if session else ""
        files = self._offer.describing.files.files_for(session, self._runtime.sessions)
        program = McpProgram(
            self._runtime, new_id(owner_of(context)), limits=replace(self._limits, wall_seconds=seconds),
            session=session, can_ask=can_ask(context), asker=name_of(context), language=language,
        )  # fmt: skip
        before = None if is_legacy(context) else self._clients.tell_roots
        program.start(text, before, files=files, is_durable=is_durable, names=names)
        self._programs.live[program.id] = program
        return program

    def _come_back(self, params: types.CallToolRequestParams) -> McpProgram:
        """The program that waits for the answers in this request."""
        program = self._programs.unpark(params.request_state or "")
        if program is None:
            raise UsageError("the program that asked is gone: it waited too long, or was answered; run it again")
        program.unpark()
        program.questions.answer(params.input_responses or {})
        return program

    async def _wait(self, context: Context, arguments: Mapping[str, Any]) -> CallToolResponse:
        """Continue to wait for a program that has yielded, or end it."""
        owner = owner_of(context)
        execution_id, is_cancel = check_id(arguments.get("execution_id"), owner), arguments.get("cancel", False)
        if not isinstance(is_cancel, bool):
            raise UsageError(f"cancel must be true or false, got {is_cancel!r}; the program was left alone")
        seconds = self._yielding.seconds_for(arguments.get("yield_after_seconds"))
        program = await self._find(context, execution_id)
        if isinstance(program, Outcome):
            return self._result(context, program)
        if is_cancel:
            return await self._final_result(context, program, await stop_program(program, self._programs))
        program.questions.rounds = 0  # the client counts them anew for each request
        return await self._serve(context, program, seconds, is_wait=True)

    async def _find(self, context: Context, execution_id: str) -> McpProgram | Outcome:
        """A program that has yielded; one whose process is gone continues here, or has an outcome on record."""
        if (program := self._programs.find(execution_id)) is not None:
            return program
        recorded = await self._runtime.executions.recorded(execution_id)
        if recorded is None:
            raise unknown_program(execution_id)
        if recorded.outcome is not None:
            return recorded.outcome
        if recorded.start_record.session:
            raise UsageError(
                f"program {execution_id!r} ended with the server that ran it: a session's variables are lost with it"
            )
        if not self._programs.locks.take(execution_id, is_new=False):
            raise UsageError(f"program {execution_id!r} runs in another process of this server; wait for it there")
        await self._offer.wait_for_mentioned(recorded.start_record.program.text)
        program = McpProgram(
            self._runtime, execution_id, limits=recorded.start_record.limits, can_ask=can_ask(context),
            asker=name_of(context),
        )  # fmt: skip
        program.revive()
        self._programs.keep(program)
        return program

    async def _serve(
        self, context: Context, program: McpProgram, seconds: float | None, *, is_wait: bool
    ) -> CallToolResponse:
        result = await wait_for_program(context, program, self._programs, yield_seconds=seconds, is_wait=is_wait)
        return await self._final_result(context, program, result) if isinstance(result, Outcome) else result

    async def _final_result(self, context: Context, program: McpProgram, outcome: Outcome) -> types.CallToolResult:
        rest = await program.output.rest_of(outcome)
        return self._result(context, rest, program, has_yielded=rest is not outcome)

    def _result(
        self, context: Context, outcome: Outcome, program: McpProgram | None = None, *, has_yielded: bool = False
    ) -> types.CallToolResult:
        text, limits = ("", self._limits) if program is None else (program.text, program.limits)
        notes = self._offer.notes_on(text) if outcome.status in ("rejected", "failed") else ()
        client = client_of(context)
        stored_files: Sequence[StoredFile] = ()
        if outcome.files:
            stored_files = self._files.add(client, outcome.execution_id, outcome.files)
            self._changes.send(ResourcesListChanged(), client)
            self._spawn(self._clients.tell_files_changed(client))
        return to_result(
            outcome, wall_seconds=limits.wall_seconds, files=stored_files, notes=notes, has_yielded=has_yielded
        )

    # files

    async def _read_files(self) -> None:
        """Have a guest describe the files of programs, before a client is told of them."""
        described_files = self._offer.describing.files
        if described_files.files and self._ready is not None:
            await asyncio.wait([self._ready])
            self._offer.describing.files = await self._runtime.describe_files(described_files.files)

    async def _list_resources(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(name=file.name, uri=uri, mime_type=file.mime, size=file.size)
                for uri, file in self._files.list(client_of(context))
            ]
        )

    async def _list_resource_templates(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        file = dict(self._files.list(client_of(context))).get(uri)
        if file is None:
            code = -32002 if is_legacy(context) else types.INVALID_PARAMS
            raise MCPError(code, f"no file at {uri!r}; it may be too old", data={"uri": uri})
        content: types.TextResourceContents | types.BlobResourceContents
        try:
            content = types.TextResourceContents(uri=uri, mime_type=file.mime, text=file.data.decode())
        except UnicodeDecodeError:
            blob = base64.b64encode(file.data).decode()
            content = types.BlobResourceContents(uri=uri, mime_type=file.mime, blob=blob)
        return types.ReadResourceResult(contents=[content])

    # servers

    async def _on_each_request(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        CLIENT.set(client_of(ctx))
        _CAME_AT.set(asyncio.get_running_loop().time())
        # The handshake is not over before its answer; what the client can do is known with its next message.
        if ctx.method != "initialize":
            self._clients.meet(ctx)
            await self.connect()
        if ctx.method == "tools/call":
            assert self._ready is not None, "enter the interface first"
            await asyncio.wait([self._ready])
        return await call_next(ctx)

    def _servers_changed(self) -> None:
        self._offer.expect_change()
        if not self._is_telling:
            self._is_telling = True
            self._spawn(self._tell_change())

    async def _tell_change(self) -> None:
        await asyncio.sleep(_SETTLE_SECONDS)
        self._is_telling = False
        self._offer.refresh()
        if self._offer.announce():
            await self._changes.publish(ToolsListChanged())
            await self._clients.tell_tools_changed()


def _parse_arguments(arguments: Mapping[str, Any], max_seconds: float) -> tuple[str, str, float]:
    text, session = arguments.get("code"), arguments.get("session") or ""
    seconds = arguments.get("timeout_seconds")
    if not isinstance(text, str):
        raise UsageError(f"code must be text, got {text!r}; nothing was called")
    if not isinstance(session, str) or len(session) > 100 or not session.isprintable():
        raise UsageError(f"session must be 1 to 100 printable characters, got {session!r}; nothing was called")
    if seconds is None:
        return text, session, max_seconds
    if positive_seconds("timeout_seconds", seconds, "; nothing was called") > max_seconds:
        raise UsageError(f"timeout_seconds is {seconds!r}; the most here is {max_seconds:g}; nothing was called")
    return text, session, float(seconds)


# ----------------------------------------------------------------------------------------------------
# Notifications of changes, in both eras: all clients hear of tools, each client of its own files.

CLIENT: Final[ContextVar[str]] = ContextVar("toolfold_client", default="")
"""The client whose request is being served."""


class SubscriptionBus:
    """The SDK's bus of the newer era, which also knows whose stream is whose."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[str, Callable[[ServerEvent], None]]] = {}

    async def publish(self, event: ServerEvent) -> None:
        self.send(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Called by the SDK while it serves the request of the client that listens."""
        key = object()
        self._listeners[key] = (CLIENT.get(), listener)
        return lambda: self._listeners.pop(key, None) and None

    def send(self, event: ServerEvent, client: str | None = None) -> None:
        """Send an event to every listener, or to those of one client."""
        for owner, listener in tuple(self._listeners.values()):
            if client is None or owner == client:
                listener(event)  # only puts it into the stream's own buffer, and does not raise


# Any: nothing here reads what the lifespan yields.
class DeclaringServer(Server[Any]):
    """Declares in every handshake what is sent; over HTTP the SDK makes the options itself, and leaves that out."""

    # Any: the other parameters go to the SDK as they are.
    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *rest: Any, **keywords: Any
    ) -> InitializationOptions:
        notifications = notification_options or NotificationOptions(tools_changed=True, resources_changed=True)
        return super().create_initialization_options(notifications, *rest, **keywords)
