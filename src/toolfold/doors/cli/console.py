"""`toolfold console`: the options, and the link that it prints; what is served is in `doors.console`."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from toolfold.doors.cli.configured import nearest_config
from toolfold.errors import UsageError, install_extra

_HOST: Final = "127.0.0.1"


def console_command(
    config: Path | None, *, port: int | None, ledger: str | None, tools: list[str], read_only: bool
) -> int:
    """Serve the console until it is stopped; the link lets one browser in."""
    # Imported here: every other command starts without them, and a mistake in the config is told before.
    from toolfold.config import Config  # noqa: PLC0415
    from toolfold.config.build import module_sources  # noqa: PLC0415
    from toolfold.doors.cli.consoles import announced  # noqa: PLC0415
    from toolfold.doors.cli.load import load_tools  # noqa: PLC0415

    found = nearest_config(config) or Config()
    if ledger is not None:
        where = ledger if "://" in ledger else str(Path(ledger).absolute())
        found = found.model_copy(update={"ledger": found.ledger.model_copy(update={"where": where})})
    try:
        from toolfold.doors.console.setup import open_console  # noqa: PLC0415
        from toolfold.doors.http.serve import serve  # noqa: PLC0415
        from toolfold.doors.listening import listen  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name!r} is not installed; {install_extra('http')}") from error
    modules = load_tools([*module_sources(found), *tools])

    chosen = found.console.port if port is None else port

    async def run(listening: socket.socket) -> None:
        # Made in here: what waits needs a running event loop.
        app, opened, token = open_console(found, modules=modules, may_act=not read_only)
        known = ExitStack()

        def tell(port: int) -> None:
            known.enter_context(announced(port, opened))
            print(f"toolfold: console at http://{_HOST}:{port}/login?token={token}", file=sys.stderr, flush=True)
            print("toolfold: the link works once; Ctrl-C stops the console", file=sys.stderr, flush=True)

        try:
            with known:
                await serve(app, _HOST, chosen, on_listening=tell, listening=listening)
        finally:
            await opened.close()

    with listen(_HOST, chosen, advice="--port 0 picks a free one") as listening:
        asyncio.run(run(listening))
    return 0
