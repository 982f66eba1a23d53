"""Server commands: `toolfold serve`, `toolfold mcp` and `toolfold console`, with their options."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from toolfold.errors import UsageError, install_extra
from toolfold.interfaces.cli.command_process import run_async
from toolfold.interfaces.cli.command_setup import nearest_config
from toolfold.interfaces.cli.shared_options import ConfigOption, LedgerOption, RecordOption, ToolsOption

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.tools.tool import Tool


def serve_command(
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 0 picks a free one. Default: 8000.")
    ] = None,
    base_path: Annotated[str | None, typer.Option(metavar="PATH", help="A prefix for every path, such as /v1.")] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The URL at which other replicas with the same ledger reach this one. Default: --host and --port.",
        ),
    ] = None,
    ledger: RecordOption = None,
    console: Annotated[bool, typer.Option("--console", help="Also serve the console at /console.")] = False,
) -> int:
    """Serve programs over HTTP, for LibreChat and other clients."""
    loaded_config = _with_ledger(_config(config), ledger)
    if base_path is not None and (base_path.rstrip("/") != base_path or not base_path.startswith("/")):
        raise UsageError(f"--base-path {base_path!r} must start with a slash and not end in one, as in /v1")
    options = {"host": host, "port": port, "base_path": base_path, "advertise": advertise}
    http = loaded_config.http.model_copy(update={key: value for key, value in options.items() if value is not None})
    loaded_config = loaded_config.model_copy(update={"http": http})
    # Imported here: every other command starts without them, and a mistake in the config is told before.
    from toolfold.interfaces.cli.console_links import announce_console

    try:
        from toolfold.interfaces.config_runtime import bash_line
        from toolfold.interfaces.http.server_setup import open_app, require_keys, serve
        from toolfold.interfaces.server.http_server import listen
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; {install_extra('http')}") from error

    modules = _modules(loaded_config)

    async def run(listening: socket.socket) -> None:
        # Made in here: what waits needs a running event loop.
        async with AsyncExitStack() as stack:
            app, store = await open_app(loaded_config, modules=modules)
            stack.push_async_callback(store.close)
            link = ""
            if console:
                from toolfold.interfaces.console.app import mount_console

                link = mount_console(app, loaded_config, store)

            def tell(port: int) -> None:
                url = f"http://{f'[{http.host}]' if ':' in http.host else http.host}:{port}{http.base_path}"
                _say(f"listening on {url}")
                if not http.keys and http.jwt is None:
                    _say("no API key is configured, so only this machine is served")
                if link:
                    _say(f"console at {url}{link}")
                    stack.enter_context(announce_console(port, store, f"{http.base_path}/console"))
                if line := bash_line(app.state.runtime, clients="LibreChat"):
                    _say(line)

            await serve(app, http.host, http.port, on_listening=tell, listening=listening)

    require_keys(http)
    # First of all: a second server on one port mostly has the first one's ledger as well, and the port is the news.
    with listen(http.host, http.port, advice="--port 0 picks a free one") as listening:
        run_async(run(listening))
    return 0


def _config(path: Path | None) -> Config:
    from toolfold.config import Config

    return nearest_config(path) or Config()


def _with_ledger(config: Config, ledger: str | None) -> Config:
    if ledger is None:
        return config
    where = ledger if ledger == "memory" or "://" in ledger else str(Path(ledger).absolute())
    return config.model_copy(update={"ledger": config.ledger.model_copy(update={"where": where})})


def _modules(config: Config, more: Sequence[str] = ()) -> list[Tool]:
    from toolfold.config.build import module_sources
    from toolfold.interfaces.cli.load_tools import load_tools

    return load_tools([*module_sources(config), *more])


def _say(text: str) -> None:
    print(f"toolfold: {text}", file=sys.stderr, flush=True)


# ----------------------------------------------------------------------------------------------------
# `toolfold console`: the options, and the link that it prints; what is served is in `interfaces.console`.

_HOST: Final = "127.0.0.1"


def console_command(
    config: ConfigOption = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 0 picks a free one. Default: 8420.")
    ] = None,
    ledger: LedgerOption = None,
    tools: ToolsOption = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show everything, but allow no decisions and no reruns.")
    ] = False,
) -> int:
    """Open a web page that shows every program live. There you can also approve calls and rerun programs."""
    loaded_config = _with_ledger(_config(config), ledger)
    from toolfold.interfaces.cli.console_links import announce_console

    try:
        from toolfold.interfaces.console.app import open_console
        from toolfold.interfaces.http.server_setup import serve
        from toolfold.interfaces.server.http_server import listen
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; {install_extra('http')}") from error

    modules = _modules(loaded_config, tools or ())
    chosen_port = loaded_config.console.port if port is None else port

    async def run(listening: socket.socket) -> None:
        # Made in here: what waits needs a running event loop.
        async with AsyncExitStack() as stack:
            app, store, token = open_console(loaded_config, modules=modules, may_act=not read_only)
            stack.push_async_callback(store.close)

            def tell(port: int) -> None:
                stack.enter_context(announce_console(port, store))
                _say(f"console at http://{_HOST}:{port}/login?token={token}")
                _say("the link works once; Ctrl-C stops the console")

            await serve(app, _HOST, chosen_port, on_listening=tell, listening=listening)

    with listen(_HOST, chosen_port, advice="--port 0 picks a free one") as listening:
        run_async(run(listening))
    return 0
