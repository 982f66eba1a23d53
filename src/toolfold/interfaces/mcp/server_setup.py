"""Assembly of the MCP server from a config: runtime, tools, bridge, HTTP address. Starts nothing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

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
from toolfold.interfaces.mcp.offered_tools import DescriptionWriter, Offer
from toolfold.interfaces.mcp.program_tasks import yield_policy_of
from toolfold.interfaces.mcp.prompt_texts import ENTRY_NAME
from toolfold.interfaces.mcp.server import McpServer
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
            history=runtime.catalog.learning.lessons, files=files,
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
