"""A2A client of an agent tool; the only file that imports `a2a`.

An A2A number is a double, so `3` comes back as `3.0`: whole numbers are made integers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal

import httpx
from a2a.client import (
    A2ACardResolver,
    AgentCardResolutionError,
    Client,
    ClientConfig,
    ClientFactory,
)
from a2a.helpers import get_data_parts, new_data_part, new_message, new_raw_part, new_text_part
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError

# protobuf ships no types, and its stubs are no dependency of ours.
from google.protobuf.json_format import ParseError  # type: ignore[import-untyped]

from toolfold.errors import AgentUnreachable, ToolArgumentsInvalid, ToolError
from toolfold.models import Media, Value

_CONNECT_SECONDS: Final = 10.0
_CANCEL_SECONDS: Final = 5.0
_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 2.0
_KINDS: Final[Mapping[str, Literal["image", "audio", "file"]]] = {"image": "image", "audio": "audio"}
_WORKING: Final = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
_FAILURES: Final = {
    TaskState.TASK_STATE_FAILED: "the agent failed",
    TaskState.TASK_STATE_REJECTED: "the agent refused",
    TaskState.TASK_STATE_CANCELED: "the agent's task was cancelled",
    TaskState.TASK_STATE_INPUT_REQUIRED: "the agent asks for more; put it into the arguments",
    TaskState.TASK_STATE_AUTH_REQUIRED: "the agent asks for credentials",
}


class Agent:
    """A2A endpoint. Each question is a conversation of its own; nothing stays open between them."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = headers
        self._card: AgentCard | None = None
        self._cancels: set[asyncio.Task[None]] = set()

    async def ask(self, payload: Mapping[str, Value]) -> Value:
        """Send a message and return its result; a lone text argument goes as text, all else as data."""
        request = SendMessageRequest(message=_message(payload))
        reply = _AgentReply()
        try:
            async with self._open_client() as client:
                async for event in client.send_message(request):
                    reply.add(event)
                return await _wait_for_result(client, reply)
        except asyncio.CancelledError:
            if reply.task_id:
                self._cancel(reply.task_id)
            raise
        except (A2AError, httpx.HTTPError) as error:
            self._card = None  # it may have moved
            raise ToolError(f"the agent cannot be asked: {_first_line(error)}") from error

    @asynccontextmanager
    async def _open_client(self) -> AsyncIterator[Client]:
        # How long a call may take is the router's to say, so there is no timeout for the answer.
        timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
        async with httpx.AsyncClient(timeout=timeout, headers=dict(self._headers), verify=_tls()) as http:
            if self._card is None:
                self._card = await _read_card(http, self._url)
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=["JSONRPC", "HTTP+JSON"])
            try:
                client = ClientFactory(config).create(self._card)
            except ValueError as error:
                raise AgentUnreachable("the agent speaks neither JSON-RPC nor HTTP+JSON") from error
            yield client

    def _cancel(self, task_id: str) -> None:
        async def cancel() -> None:
            # It may be over, or cannot be stopped.
            with contextlib.suppress(A2AError, ToolError, httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(_CANCEL_SECONDS), self._open_client() as client:
                    await client.cancel_task(CancelTaskRequest(id=task_id))

        task = asyncio.create_task(cancel())
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)


class _AgentReply:
    def __init__(self) -> None:
        self.message: Message | None = None
        self.task_id = ""
        self.task: Task | None = None
        """The whole task; `None` once an update has made it stale."""

    def add(self, event: StreamResponse) -> None:
        if event.HasField("message"):
            self.message = event.message
        elif event.HasField("task"):
            self.task_id, self.task = event.task.id, event.task
        else:
            update = event.status_update if event.HasField("status_update") else event.artifact_update
            self.task_id, self.task = update.task_id, None


@functools.cache
def _tls() -> ssl.SSLContext:
    """TLS context, made once: reading the certificates takes 20 ms."""
    return httpx.create_ssl_context()


async def _read_card(http: httpx.AsyncClient, url: str) -> AgentCard:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            return await A2ACardResolver(http, url).get_agent_card()
    except (AgentCardResolutionError, TimeoutError, httpx.InvalidURL, ValueError) as error:
        status = getattr(error, "status_code", None)
        reason = f"HTTP {status} instead of an agent card" if status else "it shows no agent card"
        raise AgentUnreachable(f"the agent cannot be reached: {reason}") from error


def _message(payload: Mapping[str, Value]) -> Message:
    data = {key: value for key, value in payload.items() if not isinstance(value, (bytes, Media))}
    parts: list[Part] = []
    if len(payload) == 1 and isinstance(text := next(iter(payload.values())), str):
        parts.append(new_text_part(text))
    elif data or not payload:
        try:
            parts.append(new_data_part(data, media_type="application/json"))
        except ParseError as error:
            raise ToolArgumentsInvalid(f"arguments that an agent cannot take: {_first_line(error)}") from error
    for value in payload.values():
        if isinstance(value, bytes):
            parts.append(new_raw_part(value))
        elif isinstance(value, Media):
            parts.append(new_raw_part(value.data, media_type=value.mime, filename=value.name))
    return new_message(parts, role=Role.ROLE_USER)


async def _wait_for_result(client: Client, reply: _AgentReply) -> Value:
    if reply.message is not None:
        return _value(reply.message.parts)
    if not reply.task_id:
        raise ToolError("the agent answered nothing")
    task, wait = reply.task, _FIRST_WAIT_SECONDS
    while task is None or task.status.state in _WORKING:
        if task is not None:
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
        task = await client.get_task(GetTaskRequest(id=reply.task_id))
    status_parts = task.status.message.parts
    if task.status.state != TaskState.TASK_STATE_COMPLETED:
        problem = _FAILURES.get(task.status.state, "the agent's task has no known state")
        texts = [part.text for part in status_parts if part.HasField("text")]
        raise ToolError(": ".join([problem, *texts]))
    return _value([part for artifact in task.artifacts for part in artifact.parts] or status_parts)


def _value(parts: Iterable[Part]) -> Value:
    """A lone part as it is, texts as one text, a mixture as a list."""
    values = [_part_value(part) for part in parts]
    if values and all(isinstance(value, str) for value in values):
        return "\n".join(values)
    return values[0] if len(values) == 1 else values or None


def _part_value(part: Part) -> Value:
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return _with_integers(get_data_parts([part])[0])
        case "url":
            return Media(kind="link", mime=part.media_type, uri=part.url, name=part.filename)
        case _:
            mime = part.media_type or "application/octet-stream"
            kind = _KINDS.get(mime.partition("/")[0], "file")
            return Media(kind=kind, mime=mime, data=part.raw, name=part.filename)


def _with_integers(value: Value) -> Value:
    match value:
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case list():
            return [_with_integers(item) for item in value]
        case dict():
            return {key: _with_integers(item) for key, item in value.items()}
    return value


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
