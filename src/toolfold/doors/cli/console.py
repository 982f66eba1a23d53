"""`toolfold console`: the options, and the link that it prints; what is served is in `doors.console`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from toolfold.doors.cli.configured import nearest_config
from toolfold.errors import UsageError


def console_command(
    config: Path | None, *, port: int | None, ledger: str | None, tools: list[str], read_only: bool
) -> int:
    """Serve the console until it is stopped; the link lets one browser in."""
    # Imported here: every other command starts without them, and a mistake in the config is told before.
    from toolfold.config import Config  # noqa: PLC0415
    from toolfold.config.build import module_sources  # noqa: PLC0415
    from toolfold.doors.cli.load import load_tools  # noqa: PLC0415

    found = nearest_config(config) or Config()
    if ledger is not None:
        where = ledger if "://" in ledger else str(Path(ledger).absolute())
        found = found.model_copy(update={"ledger": found.ledger.model_copy(update={"where": where})})
    try:
        from toolfold.doors.console.setup import open_console  # noqa: PLC0415
        from toolfold.doors.http.serve import serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; install toolfold[http]") from error
    modules = load_tools([*module_sources(found), *tools])

    async def run() -> None:
        # Made in here: what waits needs a running event loop.
        app, opened, token = open_console(found, modules=modules, may_act=not read_only)

        def tell(port: int) -> None:
            print(f"toolfold: console at http://127.0.0.1:{port}/login?token={token}", file=sys.stderr, flush=True)
            print("toolfold: the link works once; Ctrl-C stops the console", file=sys.stderr, flush=True)

        try:
            await serve(app, "127.0.0.1", found.console.port if port is None else port, on_listening=tell)
        finally:
            await opened.close()

    asyncio.run(run())
    return 0
