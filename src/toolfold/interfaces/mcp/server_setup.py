"""Setup of the MCP server from a config, and its transports: stdio and streamable HTTP."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias, cast

import anyio
import mcp_types as types
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import PROTOCOL_VERSION_META_KEY
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from toolfold.config.build import (
    StrayPatterns,
    approval_of,
    bridge_servers,
    declared_tools,
    ledger_of,
    runtime_settings,
    with_policies,
)
from toolfold.config.loader import left_out_servers
from toolfold.config.model import Config
from toolfold.execution.request import OwnedLedger
from toolfold.interfaces.config_runtime import bash_line
from toolfold.interfaces.mcp.client_program import ask_client
from toolfold.interfaces.mcp.client_sessions import Clients
from toolfold.interfaces.mcp.early_handshake import EarlyAnswers, EarlyTraffic, is_pipe
from toolfold.interfaces.mcp.offered_tools import DescriptionWriter, Offer
from toolfold.interfaces.mcp.program_tasks import yield_policy_of
from toolfold.interfaces.mcp.prompt_texts import ENTRY_NAME, TOKEN_VARIABLE, check_token_needed
from toolfold.interfaces.mcp.server import McpServer
from toolfold.interfaces.server.http_server import HttpServer, listen
from toolfold.interfaces.server.local_requests import OnlyFromHere
from toolfold.interfaces.server.stop_signals import on_signal
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import File
from toolfold.runtime import Runtime
from toolfold.sources.mcp import Bridge
from toolfold.tools.tool import Tool


def create_mcp_server(
    config: Config, *, modules: Sequence[Tool] = (), files: Sequence[File] = (), is_alone: bool = True,
    callback: bool = False,
) -> McpServer:  # fmt: skip
    """A server that is not entered yet.

    `modules` are the loaded tools of `tools.modules`; `is_alone` if one client has the server for itself, as on stdio;
    `callback` also serves `programmatic_tool_calling`, whose programs call tools of the client's process.
    """
    ledger = ledger_of(config)
    settings = msgspec.structs.replace(
        runtime_settings(config), ledger=OwnedLedger(ledger), approve=approval_of(config, ledger, ask_client),
        entry_name=ENTRY_NAME, interface="mcp",
    )  # fmt: skip
    runtime = Runtime(settings=settings)
    if line := bash_line(runtime):
        logging.getLogger(__name__).warning(line)
    local = [*modules, *declared_tools(config)]
    strays = StrayPatterns(config)
    if not config.servers:
        strays.warn(tool.spec for tool in local)
    offer = Offer(
        runtime,
        local=local,
        policy=settings.policy,
        blocked=config.tools.block or (),
        prepare=partial(with_policies, config),
        when_complete=strays.warn,
        left_out=left_out_servers(config),
        describing=DescriptionWriter(
            is_contract=config.mcp.description == "contract", max_characters=config.mcp.max_characters,
            history=runtime.catalog.learning.lessons, files=files, offers_small=config.mcp.offers_small,
        ),
    )  # fmt: skip
    mcp_server = McpServer(
        runtime,
        offer,
        limits=config.program_limits,
        clients=Clients(is_alone=is_alone),
        connect=partial(_bridge, config) if config.servers else None,
        # The environment is a client's only where the client started this process.
        yielding=yield_policy_of(
            config.mcp.yield_after, os.environ if is_alone else {}, config.program_limits.wall_seconds
        ),
        holds=ledger.path.with_name(f"{ledger.path.name}.running") if isinstance(ledger, SqliteLedger) else None,
    )
    if callback:
        _add_callback(mcp_server, runtime, config)
    return mcp_server


def _bridge(config: Config, clients: Clients, on_change: Callable[[], None]) -> Bridge:
    return Bridge(bridge_servers(config), outer=clients, on_change=on_change)


def _add_callback(mcp_server: McpServer, runtime: Runtime, config: Config) -> None:
    # Imported here: hardly anyone asks for it, and every client waits for the start.
    from toolfold.interfaces.callback.child_programs import CallbackExecutions  # noqa: PLC0415
    from toolfold.interfaces.callback.child_server import TOOL, ParentCallback, register  # noqa: PLC0415

    executions = CallbackExecutions(runtime, workspace=Path.cwd(), limits=config.program_limits)
    register(mcp_server.server, ParentCallback(lambda _: executions))
    mcp_server.extra_tools.append(TOOL)


# ----------------------------------------------------------------------------------------------------
# Transports of the MCP server: stdio with early answers, or streamable HTTP. Stdout is the protocol's.

PATH: Final = "/mcp"
_ONLY_FROM_HERE: Final = f"without a token only this machine is served; set {TOKEN_VARIABLE}"
_log: Final = logging.getLogger(__name__)
_Message: TypeAlias = SessionMessage | Exception


async def serve_stdio(mcp_server: McpServer, answers: EarlyAnswers | None = None) -> None:
    """Serve until the client closes stdin or a signal comes, from where the early answers stopped."""
    early = EarlyTraffic() if answers is None else answers.stop()
    async with mcp_server:
        with anyio.CancelScope() as scope, on_signal(scope.cancel):
            # While this serves, file descriptor 1 is stderr: nothing that prints can break the protocol.
            async with stdin_lines(early.data) as stdin, stdio_server(stdin) as (read_stream, write_stream):
                await _EraMultiplexer(mcp_server, write_stream, frozenset(early.answered)).serve(read_stream)


async def serve_http(mcp_server: McpServer, host: str, port: int, *, token: str = "") -> None:
    """Serve at `/mcp` until a signal comes; clients must send the token, and only loopback may do without."""
    check_token_needed(host, port, token=token)
    # Ours instead of the SDK's check, which has a few names and no addresses.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: ASGIApp = mcp_server.server.streamable_http_app(streamable_http_path=PATH, transport_security=unchecked)
    app = _TokenMiddleware(app, token) if token else OnlyFromHere(app, text=_ONLY_FROM_HERE)
    display_host = f"[{host}]" if ":" in host else host
    listener = listen(host, port, advice=f"--http {display_host}:0 picks a free one")
    server = HttpServer(app, timeout_graceful_shutdown=2)

    def stop() -> None:
        server.should_exit = True

    async with mcp_server:
        await mcp_server.connect()
        _log.warning("listening on http://%s:%d%s", display_host, listener.getsockname()[1], PATH)
        with on_signal(stop):
            await server.serve(sockets=[listener])


class _EraMultiplexer:
    """Both eras of the protocol on one pair of streams, each from its first message on.

    The SDK serves the era of a connection's first request and refuses the other. A client to which a machine was too
    slow falls back to the handshake, whether or not its discovery is answered later, so each era is a connection here.
    The SDK's answers to the requests in `answered` are dropped.
    """

    def __init__(self, mcp_server: McpServer, stream: WriteStream[SessionMessage], answered: frozenset[str]) -> None:
        self._mcp_server = mcp_server
        self._stream = stream
        self._answered = answered
        self._inputs: dict[bool, MemoryObjectSendStream[_Message]] = {}
        """By whether it is the newer era."""
        self._modern_ids: set[str | int] = set()
        """Requests of the newer era that are being served."""

    async def serve(self, messages: ReadStream[_Message]) -> None:
        try:
            async with anyio.create_task_group() as group:
                async for message in messages:
                    is_modern = self._is_modern(message)
                    if is_modern not in self._inputs:
                        self._inputs[is_modern], source = anyio.create_memory_object_stream[_Message]()
                        group.start_soon(self._mcp_server.server.run, source, self, self._mcp_server.options())
                    await self._inputs[is_modern].send(message)
                for stream in self._inputs.values():
                    stream.close()
        finally:
            await self._stream.aclose()

    # the output of each era, whose end is not the end of the stream

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._modern_ids.discard(message.id)
            if message.id in self._answered:
                return
        await self._stream.send(item)

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    def _is_modern(self, item: _Message) -> bool:
        match item.message if isinstance(item, SessionMessage) else item:
            case types.JSONRPCRequest(id=id_, method=method, params=params):
                meta = (params or {}).get("_meta")
                # The handshake is the older era's also where a client puts the mark of the newer one on it.
                if method == "initialize" or not isinstance(meta, dict) or PROTOCOL_VERSION_META_KEY not in meta:
                    return False
                self._modern_ids.add(id_)
                return True
            case types.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": str() | int() as id_}
            ) if id_ in self._modern_ids:
                self._modern_ids.discard(id_)  # it may have no answer
                return True
        # Only the older era has answers of a client, and most notifications.
        return False not in self._inputs and True in self._inputs


class _TokenMiddleware:
    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            authorization = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(authorization, self._expected):
                text, headers = "send the token as Authorization: Bearer", {"www-authenticate": "Bearer"}
                await PlainTextResponse(text, 401, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


# ----------------------------------------------------------------------------------------------------
# Stdin as lines that a signal can interrupt: the SDK reads it in a thread, which only the client can end.

LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024


@asynccontextmanager
async def stdin_lines(before: bytes = b"") -> AsyncIterator[anyio.AsyncFile[str] | None]:
    """The lines of stdin, after what was read `before`, for the SDK; `None` where it must read them its own way.

    While this is open, file descriptor 0 is the null device: what tools start reads nothing.
    """
    # An event loop cannot wait for a file of a disk or the null device: they are always ready.
    if sys.platform != "win32" and not is_pipe(sys.stdin.fileno()) and not sys.stdin.isatty():
        yield None
        return
    private, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    reader = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    reader.feed_data(before)
    if sys.platform == "win32":
        threading.Thread(target=_feed, args=[reader, asyncio.get_running_loop(), private], daemon=True).start()
        # To close it would wait for the thread, which the client alone can end; the process does not.
        yield cast("anyio.AsyncFile[str]", _decode_lines(reader))
        return
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(private), "rb", buffering=0)
    )
    try:
        # All that the SDK does with a file is to go through its lines.
        yield cast("anyio.AsyncFile[str]", _decode_lines(reader))
    finally:
        transport.close()
        # Shared with whoever started us, who may not expect what the loop made of it.
        os.set_blocking(private, True)
        os.dup2(private, 0)
        os.close(private)


def _feed(reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    """In a thread, where an event loop cannot wait for a pipe."""
    with suppress(RuntimeError):  # the loop is closed
        with suppress(OSError):
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                loop.call_soon_threadsafe(reader.feed_data, chunk)
        loop.call_soon_threadsafe(reader.feed_eof)


async def _decode_lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    while line := await reader.readline():
        yield line.decode("utf-8", errors="replace")
