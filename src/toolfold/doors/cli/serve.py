"""`toolfold serve`: the options of the HTTP door, and what they mean; what is served is in `doors.http`."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolfold.errors import UsageError

if TYPE_CHECKING:
    from toolfold.config import Config


def serve_command(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The config; the nearest toolfold.yaml from here upwards unless given."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; 127.0.0.1 unless given.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 8000 unless given, 0 takes a free one.")
    ] = None,
    base_path: Annotated[str | None, typer.Option(metavar="PATH", help="Before every path, such as /v1.")] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where other replicas reach this one, where they share a ledger; --host and --port unless given.",
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="PATH|URL|memory", help="Where executions are kept; in your state folder unless given."),
    ] = None,
    console: Annotated[bool, typer.Option("--console", help="Also serve the console, at /console.")] = False,
) -> int:
    """Serve programs over HTTP: a code backend that LibreChat can point at."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="toolfold: %(message)s")
    said = {"host": host, "port": port, "base_path": base_path, "advertise": advertise}
    found = _config(config, said, ledger=ledger)
    # Imported here: every other command starts without them, and a mistake in the config is told before.
    from toolfold.config.build import module_sources  # noqa: PLC0415
    from toolfold.doors.cli.load import load_tools  # noqa: PLC0415

    try:
        from toolfold.doors.http.serve import serve  # noqa: PLC0415
        from toolfold.doors.http.setup import open_app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; install toolfold[http]") from error

    modules = load_tools(module_sources(found))

    def tell(port: int) -> None:
        http = found.http
        shown = f"[{http.host}]" if ":" in http.host else http.host
        print(f"toolfold: listening on http://{shown}:{port}{http.base_path}", file=sys.stderr, flush=True)
        if not http.keys and http.jwt is None:
            print("toolfold: no key is configured: only this machine is served", file=sys.stderr, flush=True)
        if links:
            print(f"toolfold: console at http://{shown}:{port}{http.base_path}{links[0]}", file=sys.stderr, flush=True)

    links: list[str] = []

    async def run() -> None:
        # Made in here: what waits needs a running event loop.
        app, opened = open_app(found, modules=modules)
        if console:
            from toolfold.doors.console.setup import mount_console  # noqa: PLC0415 - only where it is wanted

            links.append(mount_console(app, found, opened))
        try:
            await serve(app, found.http.host, found.http.port, on_listening=tell)
        finally:
            await opened.close()

    asyncio.run(run())
    return 0


# Any: each key has its own type.
def _config(path: Path | None, options: "dict[str, Any]", *, ledger: str | None) -> "Config":
    """The config with what the command line says instead; without a file, the defaults."""
    from toolfold.config import Config, find_config, load_config  # noqa: PLC0415 - for the start of other commands

    path = path or find_config()
    config = Config() if path is None else load_config(path)
    said = {key: value for key, value in options.items() if value is not None}
    base_path = options["base_path"]
    if base_path is not None and (base_path.rstrip("/") != base_path or not base_path.startswith("/")):
        raise UsageError(f"--base-path {base_path!r} must start with a slash and not end in one, as in /v1")
    update: dict[str, Any] = {"http": config.http.model_copy(update=said)}
    if ledger is not None:
        where = ledger if ledger == "memory" or "://" in ledger else str(Path(ledger).absolute())
        update["ledger"] = config.ledger.model_copy(update={"where": where})
    return config.model_copy(update=update)
