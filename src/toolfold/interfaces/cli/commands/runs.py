"""Runs commands: `toolfold runs` lists, shows, deletes, reruns and waits for recorded executions."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar, cast

import typer

from toolfold.errors import UsageError
from toolfold.interfaces.cli.command_process import run_async, write_json
from toolfold.interfaces.cli.command_setup import nearest_config, open_for_command
from toolfold.interfaces.cli.shared_options import (
    ConfigOption,
    EngineOption,
    JsonOption,
    LedgerOption,
    OutOption,
    ToolsOption,
)
from toolfold.models import Status

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.ledger.base import ExecutionHistory, Ledger, State

_T = TypeVar("_T")
_LONGEST_WAIT_SECONDS: Final = 31_536_000


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _LONGEST_WAIT_SECONDS:
        raise typer.BadParameter(f"{text!r} is not a number of seconds from 0 to {_LONGEST_WAIT_SECONDS}")
    return seconds


runs_app = typer.Typer(help="List, show, wait for, delete or rerun executions.", rich_markup_mode=None)

_Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the execution, or the beginning of it.")]
_Limit = Annotated[int, typer.Option(min=1, help="How many to list, newest first.")]
_Statuses = Literal[Status, "running", "paused"]


@runs_app.callback(invoke_without_command=True)
def _runs(
    context: typer.Context, limit: _Limit = 20, json: JsonOption = False, ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> int:  # fmt: skip
    # A command below may name the ledger and the config after its own name, or leave them to this one.
    context.obj = ledger, config, json
    if context.invoked_subcommand is not None:
        return 0
    from toolfold.interfaces.cli import execution_views

    summaries = with_ledger(*_choose(context), lambda store: store.list(limit=limit))
    return execution_views.print_list(summaries, as_json=json)


@runs_app.command("list")
def _list(
    context: typer.Context,
    status: Annotated[_Statuses | None, typer.Option(help="Only executions with this status.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="AGE|DATE", help="Only executions that started since then: 30m, 2h, 7d, or 2026-01-31."),
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only executions that called this tool.")] = None,
    interface: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only executions through this interface: cli, library, mcp, http, ..."),
    ] = None,
    limit: _Limit = 20,
    json: JsonOption = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> int:
    """List executions, newest first. `--tool` finds only executions that have ended."""
    from toolfold.interfaces.cli import execution_views
    from toolfold.interfaces.cli.program_inputs import moment_of
    from toolfold.ledger.base import ExecutionFilter

    is_state = status in ("running", "paused")
    criteria = ExecutionFilter(
        # cast: mypy does not narrow a literal by `in`.
        state=cast("State", status) if is_state else None,
        status=None if is_state else status,
        since=None if since is None else moment_of(since),
        tool=tool,
        interface=interface,
    )
    chosen = _choose(context, ledger, config)
    summaries = with_ledger(*chosen, lambda store: store.search(criteria, limit=limit))
    return execution_views.print_list(
        summaries, as_json=_is_json(context, json), is_filtered=criteria != ExecutionFilter()
    )


@runs_app.command("delete")
def _delete(
    context: typer.Context,
    ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="The ids of the executions, or the beginning of each.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also delete executions that are running or paused; they cannot continue.")
    ] = False,
    json: JsonOption = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> int:
    """Delete executions from the ledger, including everything recorded about them."""

    async def delete(store: Ledger) -> list[str]:
        # All are looked at first: a wrong id deletes nothing.
        histories = [await load(store, prefix) for prefix in ids]
        names = [history.start_record.execution_id for history in histories]
        for name, history in zip(names, histories, strict=True):
            if history.state != "ended" and not force:
                raise UsageError(f"execution {name!r} is {history.state}, so it may continue; add --force to delete it")
        return [name for name in names if await store.delete(name)]

    deleted_ids = with_ledger(*_choose(context, ledger, config), delete)
    if _is_json(context, json):
        write_json({"deleted": deleted_ids})
    else:
        typer.echo(f"deleted {len(deleted_ids)} execution{'' if len(deleted_ids) == 1 else 's'}")
    return 0


@runs_app.command("show")
def _show(
    context: typer.Context, id: _Id,
    full: Annotated[bool, typer.Option("--full", help="Also print the complete arguments and replies.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Show its calls live until it ends, then print it.")] = False,
    json: JsonOption = False, ledger: LedgerOption = None, config: ConfigOption = None,
) -> int:  # fmt: skip
    """Show one execution: its program, its output and its calls over time."""
    from toolfold.interfaces.cli import execution_views

    async def load_ended(store: Ledger) -> ExecutionHistory:
        execution = await load(store, id)
        if follow and execution.outcome is None:
            await execution_views.follow_execution(store, execution.start_record)
            return await load(store, execution.start_record.execution_id)
        return execution

    final_execution = with_ledger(*_choose(context, ledger, config), load_ended)
    return execution_views.print_history(final_execution, full=full, as_json=_is_json(context, json))


@runs_app.command("rerun")
def _rerun(
    context: typer.Context,
    id: _Id,
    program: Annotated[
        str | None, typer.Argument(metavar="FILE|-", help="The corrected program. Default: the recorded one.")
    ] = None,
    tools: ToolsOption = None,
    config: ConfigOption = None,
    engine: EngineOption = None,
    isolation: Annotated[
        Literal["namespace", "landlock"] | None,
        typer.Option(help="How the process engine isolates the program. Default: the config's, or namespace."),
    ] = None,
    out: OutOption = None,
    repeat: Annotated[
        list[str] | None,
        typer.Option(metavar="TOOL", help="A tool that may be called again if its reply was not recorded. Repeatable."),
    ] = None,
    json: JsonOption = False,
    ledger: LedgerOption = None,
) -> int:
    """Run a corrected program; calls that the earlier execution already made get the recorded replies.

    It starts with the files and limits of the earlier one. The exit codes are those of `toolfold run`.
    """
    from toolfold.interfaces.cli.commands.wait_and_rerun import rerun
    from toolfold.interfaces.cli.program_inputs import RunOptions

    where, loaded_config = _choose(context, ledger, config)
    # Its tools are needed too, wherever the ledger is.
    loaded_config = loaded_config or nearest_config()
    options = RunOptions(
        program=program or "", tools=tuple(tools or ()), engine=engine, isolation=isolation, out=out,
        as_json=_is_json(context, json), ledger=where,
    )  # fmt: skip
    execution = with_ledger(where, loaded_config, lambda store: load(store, id))
    return rerun(options, execution, repeat=repeat, config=loaded_config)


@runs_app.command("wait")
def _wait(
    context: typer.Context,
    id: _Id,
    timeout: Annotated[
        float | None, typer.Option(parser=_seconds, metavar="SECONDS", help="How long to wait. Default: until it ends.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the program instead of waiting.")] = False,
    out: OutOption = None,
    json: JsonOption = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> int:
    """Wait for an execution of any process, and answer its questions. Ctrl-C leaves it running.

    The exit codes are those of `toolfold run`; 75 if the time is up, or if nobody is here to answer a question.
    """
    from toolfold.interfaces.cli.commands.wait_and_rerun import wait_for
    from toolfold.interfaces.cli.outcome_output import prepare_folder
    from toolfold.interfaces.cli.program_inputs import RunOptions

    where, loaded_config = _choose(context, ledger, config)
    execution = with_ledger(where, loaded_config, lambda store: load(store, id))
    if out is not None:
        prepare_folder(out)
    options = RunOptions(program="", out=out, as_json=_is_json(context, json))
    # A ledger of its own: the first is closed before a process is forked from this one.
    open_again = partial(open_for_command, where, loaded_config)
    return wait_for(open_again, execution, options, timeout_seconds=timeout, is_cancel=cancel)


def _choose(
    context: typer.Context, ledger: str | None = None, path: Path | None = None
) -> tuple[str | None, Config | None]:
    """The ledger and the config that the command line names; without a ledger, the nearest config."""
    outer_ledger, outer_path, _ = context.obj
    ledger, path = ledger or outer_ledger, path or outer_path
    return ledger, nearest_config(path) if ledger is None or path is not None else None


def _is_json(context: typer.Context, json: bool) -> bool:
    """Also where `--json` stands before the name of the command."""
    return json or context.obj[2]


def with_ledger(where: str | None, config: Config | None, use: Callable[[Ledger], Awaitable[_T]]) -> _T:
    """Open the ledger, use it and close it; without `where` it is that of the config, or else the usual one."""

    async def once() -> _T:
        try:
            return await use(ledger)
        finally:
            await ledger.close()

    ledger = open_for_command(where, config)
    return run_async(once())


async def load(ledger: Ledger, prefix: str) -> ExecutionHistory:
    """The one execution whose id starts with `prefix`."""
    ids = await ledger.find(prefix, limit=3)
    if len(ids) > 1 and prefix not in ids:
        raise UsageError(f"{prefix!r} matches several ids: {', '.join(ids)}; use more characters")
    history = await ledger.load(prefix if prefix in ids else ids[0]) if ids else None
    if history is None:
        raise UsageError(f"no execution {prefix!r} in the ledger; 'toolfold runs' lists them")
    return history
