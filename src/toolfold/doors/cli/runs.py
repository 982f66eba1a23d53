"""`toolfold runs`: what the ledger holds. The options; what is shown is in `history`, what is run in `rerun`."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from toolfold.doors.cli.configured import EngineOption, nearest_config
from toolfold.doors.cli.ledgers import open_for_command
from toolfold.errors import UsageError
from toolfold.ledger.record import History, Ledger

_T = TypeVar("_T")

runs_app = typer.Typer(
    help="List executions, show one, or run one again without repeating its calls.", rich_markup_mode=None
)

_Where = Annotated[
    str | None,
    typer.Option("--ledger", metavar="PATH|memory", help="The ledger; the one in your state folder unless given."),
]
_Id = Annotated[str, typer.Argument(metavar="ID", help="The start of its id is enough.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@runs_app.callback(invoke_without_command=True)
def _list(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    json: _AsJson = False,
    ledger: _Where = None,
) -> int:
    # A command below may name the ledger after its own name, or leave it to this one.
    context.obj = ledger
    if context.invoked_subcommand is not None:
        return 0
    # Imported here: `--help` starts without the tables and bars.
    from toolfold.doors.cli import history  # noqa: PLC0415

    summaries = with_ledger(ledger, lambda opened: opened.list(limit=limit))
    return history.print_list(summaries, as_json=json)


@runs_app.command("show")
def _show(
    context: typer.Context,
    id: _Id,
    full: Annotated[bool, typer.Option("--full", help="Also the arguments and replies, whole.")] = False,
    json: _AsJson = False,
    ledger: _Where = None,
) -> int:
    """Show one execution: its program, its output, its calls as a timeline."""
    # Imported here for the same reason.
    from toolfold.doors.cli import history  # noqa: PLC0415

    shown = with_ledger(ledger or context.obj, lambda opened: load(opened, id))
    return history.print_history(shown, full=full, as_json=json)


@runs_app.command("rerun")
def _rerun(
    context: typer.Context,
    id: _Id,
    program: Annotated[
        str | None, typer.Argument(metavar="FILE|-", help="The corrected program; the recorded one unless given.")
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE.py|MODULE", help="Tools for the program, as in `toolfold run`. Repeatable."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The config; the nearest toolfold.yaml from here upwards unless given."),
    ] = None,
    engine: EngineOption = None,
    isolation: Annotated[
        Literal["namespace", "landlock"] | None,
        typer.Option(help="How the process engine is walled in; the config's, or namespace, unless given."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the files that the program made into DIR.")
    ] = None,
    repeat: Annotated[
        list[str] | None,
        typer.Option(metavar="TOOL", help="May be called again where its reply is not on record. Repeatable."),
    ] = None,
    json: _AsJson = False,
    ledger: _Where = None,
) -> int:
    """Run a corrected program: calls that the earlier execution made too get the replies they got there.

    It begins with the files and limits of the earlier one. Exit codes are those of `toolfold run`.
    """
    # Imported here: listing and showing start without the runtime.
    from toolfold.doors.cli.rerun import rerun  # noqa: PLC0415
    from toolfold.doors.cli.run import RunOptions  # noqa: PLC0415

    options = RunOptions(
        program=program or "", tools=tuple(tools or ()), engine=engine, isolation=isolation, out=out, as_json=json
    )
    found = nearest_config(config)
    opened = open_for_command(ledger or context.obj, found)
    try:
        return rerun(options, opened, asyncio.run(load(opened, id)), repeat=repeat, config=found)
    finally:
        asyncio.run(opened.close())


def with_ledger(where: str | None, use: Callable[[Ledger], Awaitable[_T]]) -> _T:
    """Open the ledger, use it and close it."""

    async def once() -> _T:
        try:
            return await use(ledger)
        finally:
            await ledger.close()

    ledger = open_for_command(where, nearest_config() if where is None else None)
    return asyncio.run(once())


async def load(ledger: Ledger, prefix: str) -> History:
    """The execution whose id starts with `prefix`.

    Raises:
        UsageError: None does, or several do.
    """
    found = await ledger.find(prefix, limit=3)
    if len(found) > 1 and prefix not in found:
        raise UsageError(f"{prefix!r} is the start of several ids: {', '.join(found)}; give more of it")
    history = await ledger.load(prefix if prefix in found else found[0]) if found else None
    if history is None:
        raise UsageError(f"no execution {prefix!r} in the ledger; 'toolfold runs' lists them")
    return history
