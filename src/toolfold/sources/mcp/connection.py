"""One connection to one server, from the handshake to its end. Knows nothing of trying again."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client._transport import ReadStream, WriteStream
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolfold.errors import ToolError
from toolfold.sources.mcp.broken import UNREADABLE
from toolfold.sources.mcp.eras import Era, negotiate
from toolfold.sources.mcp.outer import EXECUTION, Outer

MAX_PAGES: Final = 1000
MAX_ROUNDS: Final = 20
"""Questions that one call may ask, one after another."""
_RELISTEN_SECONDS: Final = 1.0
_log: Final = logging.getLogger(__name__)

_Result = TypeVar("_Result")
# Any: what the three methods that may ask have in common is not in their types.
_Asking = Callable[[types.InputResponses | None, str | None], Awaitable[Any]]


class Session(ClientSession):
    """The SDK's session, which gives a result that does not fit its schema instead of nothing."""

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """`values` looks at that, and only warns."""


class Connection:
    """A session after its handshake. Calls may be made from any task, many at once."""

    def __init__(self, session: Session, era: Era, calls: list[str]) -> None:
        self.era = era
        self._session = session
        self._executions = calls

    @property
    def version(self) -> str:
        return self._session.protocol_version or ""

    @property
    def instructions(self) -> str:
        return self._session.instructions or ""

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self._session.server_capabilities or types.ServerCapabilities()

    async def list_tools(self) -> list[types.Tool]:
        if self.capabilities.tools is None and self.era == "legacy":
            return []  # many servers answer with an error what they do not offer

        async def page(cursor: str | None) -> tuple[list[types.Tool], str | None]:
            found = await self._session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            return found.tools, found.next_cursor

        return await _all_pages(page)

    async def list_resources(self) -> list[types.Resource]:
        async def page(cursor: str | None) -> tuple[list[types.Resource], str | None]:
            found = await self._session.list_resources(params=types.PaginatedRequestParams(cursor=cursor))
            return found.resources, found.next_cursor

        return await _all_pages(page)

    async def list_prompts(self) -> list[types.Prompt]:
        async def page(cursor: str | None) -> tuple[list[types.Prompt], str | None]:
            found = await self._session.list_prompts(params=types.PaginatedRequestParams(cursor=cursor))
            return found.prompts, found.next_cursor

        return await _all_pages(page)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, execution_id: str, on_progress: ProgressFnT | None
    ) -> types.CallToolResult:
        """One call, with every question that the server asks before it answers."""

        async def send(responses: types.InputResponses | None, state: str | None) -> Any:
            return await self._session.call_tool(
                name,
                dict(arguments),
                progress_callback=on_progress,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )

        with _Within(self._executions, execution_id):
            try:
                result = await self._answered(send)
            except MCPError as error:
                if error.code != types.HEADER_MISMATCH:
                    raise
                await self.list_tools()  # the tool's schema has changed, and with it the headers of a call
                result = await self._answered(send)
        assert isinstance(result, types.CallToolResult)
        return result

    async def read_resource(self, uri: str, *, execution_id: str) -> types.ReadResourceResult:
        async def send(responses: types.InputResponses | None, state: str | None) -> Any:
            return await self._session.read_resource(
                uri, input_responses=responses, request_state=state, allow_input_required=True
            )

        with _Within(self._executions, execution_id):
            result = await self._answered(send)
        assert isinstance(result, types.ReadResourceResult)
        return result

    async def get_prompt(self, name: str, arguments: Mapping[str, str], *, execution_id: str) -> types.GetPromptResult:
        async def send(responses: types.InputResponses | None, state: str | None) -> Any:
            return await self._session.get_prompt(
                name, dict(arguments), input_responses=responses, request_state=state, allow_input_required=True
            )

        with _Within(self._executions, execution_id):
            result = await self._answered(send)
        assert isinstance(result, types.GetPromptResult)
        return result

    async def _answered(self, send: _Asking) -> Any:
        """The new era's way to ask: the server answers with questions, and is asked again with the answers."""
        result = await _read(send(None, None))
        rounds = 0
        while isinstance(result, types.InputRequiredResult):
            rounds += 1
            if rounds > MAX_ROUNDS:
                raise MCPError(types.INTERNAL_ERROR, f"it asked more than {MAX_ROUNDS} times before it answered")
            responses: types.InputResponses | None = None
            if result.input_requests:
                responses = {key: await self._ask(key, one) for key, one in result.input_requests.items()}
            else:
                await asyncio.sleep(min(0.05 * 2**rounds, 1.0))
            result = await _read(send(responses, result.request_state))
        return result

    async def _ask(self, key: str, request: types.InputRequest) -> types.InputResponse:
        context = ClientRequestContext(session=self._session, request_id=key)
        response = await self._session.dispatch_input_request(context, request)
        if isinstance(response, types.ErrorData):
            raise MCPError.from_error_data(response)
        return response

    async def tell_roots_changed(self) -> None:
        """The newer era asks for them with each call, and needs no word of it."""
        if self.era == "legacy":
            await self._session.send_notification(types.RootsListChangedNotification())

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Tell of changes, in the era that has to be asked for them; ends with the connection."""
        if self.version not in MODERN_PROTOCOL_VERSIONS:
            return
        while True:
            try:
                async with listen(self._session, tools_list_changed=True) as changes:
                    async for _ in changes:
                        on_change()
                return
            except SubscriptionLost:
                await asyncio.sleep(_RELISTEN_SECONDS)
                on_change()
            except (MCPError, TimeoutError) as error:
                _log.debug("no word of changes from this server: %s", error)
                return


# Any: as above.
async def _read(reply: Awaitable[Any]) -> Any:
    try:
        return await reply
    except ValidationError as error:  # JSON, but not of the shape that such a reply has
        raise MCPError(types.INTERNAL_ERROR, UNREADABLE) from error


@asynccontextmanager
async def open_session(
    streams: tuple[ReadStream[Any], WriteStream[SessionMessage]],
    *,
    name: str,
    known: Era | None,
    outer: Outer | None,
    on_change: Callable[[], None],
) -> AsyncIterator[Connection]:
    """A session over a transport's streams, after the handshake.

    Raises:
        MCPError: the server refused or hung up.
    """
    calls: list[str] = []
    answers = _Answers(name, outer, calls) if outer is not None else None

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()

    session = Session(
        *streams,
        elicitation_callback=answers.elicit if answers and answers.outer.can_elicit else None,
        list_roots_callback=answers.list_roots if answers and answers.outer.has_roots else None,
        logging_callback=answers.log if answers else None,
        log_level="info" if answers else None,
        message_handler=on_message,
        client_info=types.Implementation(name="toolfold", version=_version()),
    )
    async with session:
        yield Connection(session, await negotiate(session, known), calls)


def _version() -> str:
    try:
        return importlib.metadata.version("toolfold")
    except importlib.metadata.PackageNotFoundError:
        return "0"  # run from its source folder


class _Answers:
    """A server's requests, passed to the client outside."""

    def __init__(self, name: str, outer: Outer, calls: list[str]) -> None:
        self.outer = outer
        self._name = name
        self._calls = calls

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        # The older era does not say which call a question belongs to: the latest is the likeliest.
        execution_id = EXECUTION.get() or (self._calls[-1] if self._calls else "")
        try:
            return await self.outer.elicit(params, server=self._name, execution_id=execution_id)
        except ToolError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))

    async def list_roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        try:
            return types.ListRootsResult(roots=list(await self.outer.roots()))
        except ToolError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.outer.log(server=self._name, level=params.level, data=params.data)


class _Within:
    """Marks an execution as one that has a call here, for questions that do not say whose they are."""

    def __init__(self, executions: list[str], execution_id: str) -> None:
        self._executions = executions
        self._id = execution_id

    def __enter__(self) -> None:
        self._executions.append(self._id)
        self._token = EXECUTION.set(self._id)

    def __exit__(self, *_: object) -> None:
        EXECUTION.reset(self._token)
        self._executions.remove(self._id)


async def _all_pages(page: Callable[[str | None], Awaitable[tuple[list[_Result], str | None]]]) -> list[_Result]:
    """Every page of a list; a cursor that comes again ends it, or a broken server would be read for ever."""
    items, cursor = await page(None)
    seen: set[str] = set()
    while cursor is not None and cursor not in seen and len(seen) < MAX_PAGES:
        seen.add(cursor)
        more, cursor = await page(cursor)
        items += more
    return items
