"""Server commands: `toolfold serve`, `toolfold mcp` and `toolfold console`, with their options."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolfold.errors import UsageError, install_extra
from toolfold.interfaces.cli.options import ConfigOption
from toolfold.interfaces.cli.setup import nearest_config

if TYPE_CHECKING:
    from toolfold.config import Config


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
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL|memory", help="Where to record executions. Default: a file in your state folder."
        ),
    ] = None,
    console: Annotated[bool, typer.Option("--console", help="Also serve the console at /console.")] = False,
) -> int:
    """Serve programs over HTTP, for LibreChat and other clients."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="toolfold: %(message)s")
    overrides = {"host": host, "port": port, "base_path": base_path, "advertise": advertise}
    loaded_config = _config(config, overrides, ledger=ledger)
    # Imported here: every other command starts without them, and a mistake in the config is told before.
    from toolfold.config.build import module_sources  # noqa: PLC0415
    from toolfold.interfaces.cli.console_links import announce_console  # noqa: PLC0415
    from toolfold.interfaces.cli.load_tools import load_tools  # noqa: PLC0415

    try:
        from toolfold.interfaces.http.setup import (  # noqa: PLC0415
            open_app,
            require_keys,
            serve,
        )
        from toolfold.interfaces.server.listen import listen  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; {install_extra('http')}") from error

    modules = load_tools(module_sources(loaded_config))

    def tell(port: int) -> None:
        http = loaded_config.http
        address = f"[{http.host}]" if ":" in http.host else http.host
        print(f"toolfold: listening on http://{address}:{port}{http.base_path}", file=sys.stderr, flush=True)
        if not http.keys and http.jwt is None:
            print("toolfold: no API key is configured, so only this machine is served", file=sys.stderr, flush=True)
        if links:
            print(
                f"toolfold: console at http://{address}:{port}{http.base_path}{links[0]}", file=sys.stderr, flush=True
            )

    links: list[str] = []

    async def run(listening: socket.socket) -> None:
        # Made in here: what waits needs a running event loop.
        app, store = await open_app(loaded_config, modules=modules)
        stack = ExitStack()

        def tell_all(port: int) -> None:
            tell(port)
            if console:
                stack.enter_context(announce_console(port, store, f"{loaded_config.http.base_path}/console"))

        try:
            if console:
                from toolfold.interfaces.console.app import mount_console  # noqa: PLC0415 - only where it is wanted

                links.append(mount_console(app, loaded_config, store))
            with stack:
                await serve(
                    app, loaded_config.http.host, loaded_config.http.port, on_listening=tell_all, listening=listening
                )
        finally:
            await store.close()

    require_keys(loaded_config.http)
    # First of all: a second server on one port mostly has the first one's ledger as well, and the port is the news.
    with listen(loaded_config.http.host, loaded_config.http.port, advice="--port 0 picks a free one") as listening:
        asyncio.run(run(listening))
    return 0


# Any: each key has its own type.
def _config(path: Path | None, options: dict[str, Any], *, ledger: str | None) -> Config:
    """The config with what the command line says instead; without a file, the defaults."""
    from toolfold.config import Config, find_config, load_config  # noqa: PLC0415 - for the start of other commands

    path = path or find_config()
    config = Config() if path is None else load_config(path)
    overrides = {key: value for key, value in options.items() if value is not None}
    base_path = options["base_path"]
    if base_path is not None and (base_path.rstrip("/") != base_path or not base_path.startswith("/")):
        raise UsageError(f"--base-path {base_path!r} must start with a slash and not end in one, as in /v1")
    update: dict[str, Any] = {"http": config.http.model_copy(update=overrides)}
    if ledger is not None:
        where = ledger if ledger == "memory" or "://" in ledger else str(Path(ledger).absolute())
        update["ledger"] = config.ledger.model_copy(update={"where": where})
    return config.model_copy(update=update)


# ----------------------------------------------------------------------------------------------------
# `toolfold console`: the options, and the link that it prints; what is served is in `interfaces.console`.

_HOST: Final = "127.0.0.1"


def console_command(
    config: Path | None, *, port: int | None, ledger: str | None, tools: list[str], read_only: bool
) -> int:
    """Serve the console until it is stopped; the link lets one browser in."""
    # Imported here: every other command starts without them, and a mistake in the config is told before.
    from toolfold.config import Config  # noqa: PLC0415
    from toolfold.config.build import module_sources  # noqa: PLC0415
    from toolfold.interfaces.cli.console_links import announce_console  # noqa: PLC0415
    from toolfold.interfaces.cli.load_tools import load_tools  # noqa: PLC0415

    loaded_config = nearest_config(config) or Config()
    if ledger is not None:
        where = ledger if "://" in ledger else str(Path(ledger).absolute())
        loaded_config = loaded_config.model_copy(
            update={"ledger": loaded_config.ledger.model_copy(update={"where": where})}
        )
    try:
        from toolfold.interfaces.console.app import open_console  # noqa: PLC0415
        from toolfold.interfaces.http.setup import serve  # noqa: PLC0415
        from toolfold.interfaces.server.listen import listen  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; {install_extra('http')}") from error
    modules = load_tools([*module_sources(loaded_config), *tools])

    chosen_port = loaded_config.console.port if port is None else port

    async def run(listening: socket.socket) -> None:
        # Made in here: what waits needs a running event loop.
        app, store, token = open_console(loaded_config, modules=modules, may_act=not read_only)
        stack = ExitStack()

        def tell(port: int) -> None:
            stack.enter_context(announce_console(port, store))
            print(f"toolfold: console at http://{_HOST}:{port}/login?token={token}", file=sys.stderr, flush=True)
            print("toolfold: the link works once; Ctrl-C stops the console", file=sys.stderr, flush=True)

        try:
            with stack:
                await serve(app, _HOST, chosen_port, on_listening=tell, listening=listening)
        finally:
            await store.close()

    with listen(_HOST, chosen_port, advice="--port 0 picks a free one") as listening:
        asyncio.run(run(listening))
    return 0
