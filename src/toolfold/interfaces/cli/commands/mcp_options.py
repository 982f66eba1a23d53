"""`toolfold mcp`: options of the MCP interface."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from toolfold.config import Config, find_config, load_config
from toolfold.config.import_clients import import_servers
from toolfold.config.loader import with_left_out
from toolfold.errors import UsageError, install_extra
from toolfold.interfaces.cli.command_process import run_to_end
from toolfold.interfaces.cli.program_inputs import read_files
from toolfold.interfaces.mcp.early_handshake import EarlyAnswers
from toolfold.interfaces.mcp.prompt_texts import INSTRUCTIONS, TOKEN_VARIABLE, check_token_needed, parse_address

if TYPE_CHECKING:
    from toolfold.tools.tool import Tool


def mcp_command(
    config: Path | None, http: str | None, import_paths: list[Path], *, files: list[Path], callback: bool
) -> int:
    """Serve `execute_program` to an MCP client, over the servers of a config. Stdout is the protocol's."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="toolfold: %(message)s")
    loaded_config = read_config(config, import_paths)
    token = os.environ.get(TOKEN_VARIABLE, "")
    address = None if http is None else parse_address(http)
    if address is not None:
        check_token_needed(*address, token=token)
    early = None
    # Without the SDK nothing can be served, so nothing is promised.
    if address is None and not callback and find_spec("mcp") is not None:
        early = EarlyAnswers(INSTRUCTIONS)
        early.start()
    modules, program_files = _modules(loaded_config), read_files(files, loaded_config.program_limits)
    # Imported here: mistakes are told and the first answer is given without the SDK, which takes most of the start.
    try:
        from toolfold.interfaces.mcp.server_setup import create_mcp_server, serve_http, serve_stdio
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; {install_extra('mcp')}") from error

    async def serve() -> None:
        # Made in here: what waits needs a running event loop.
        mcp_server = create_mcp_server(
            loaded_config, modules=modules, files=program_files, is_alone=address is None, callback=callback
        )
        if address is None:
            await serve_stdio(mcp_server, early)
        else:
            await serve_http(mcp_server, *address, token=token)

    run_to_end(serve())
    return 0


def read_config(path: Path | None, import_paths: list[Path]) -> Config:
    """The config with the servers of other clients' files; of two with one name the config's own counts."""
    path = path or find_config()
    if path is None and not import_paths:
        raise UsageError(
            "no toolfold.yaml in this or a parent folder; write one with 'toolfold init', or name one with --config"
        )
    config = Config() if path is None else load_config(path)
    servers = {server.name: server for server in config.servers}
    left_out: dict[str, str] = {}
    for client_file in import_paths:
        folder = _project_folder(client_file.absolute())
        for server in import_servers(client_file, folder=folder, left_out=left_out):
            servers.setdefault(server.name, server.resolve_paths(folder))
    left_out = {name: reason for name, reason in left_out.items() if name not in servers}
    return with_left_out(config.model_copy(update={"servers": tuple(servers.values())}), left_out)


def _project_folder(client_file: Path) -> Path:
    """The folder in which a client starts the servers of this file: its project's, else the current one."""
    in_editor_folder = client_file.parent.name in (".cursor", ".vscode")
    folder = client_file.parents[1] if in_editor_folder else client_file.parent
    is_project = in_editor_folder or client_file.name == ".mcp.json"
    return folder if is_project and folder != Path.home() else Path.cwd()


def _modules(config: Config) -> list[Tool]:
    if not config.tools.modules:
        return []
    from toolfold.config.build import module_sources
    from toolfold.interfaces.cli.load_tools import load_tools

    # What a module prints while it is imported is not for the client.
    with redirect_stdout(sys.stderr):
        return load_tools(module_sources(config))
