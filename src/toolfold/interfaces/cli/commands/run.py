"""`toolfold run`: inputs in, one program run, its outcome rendered; signals stop the program."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toolfold.errors import UsageError
from toolfold.interfaces.cli.inputs import RunOptions, limits_for, read_files, read_program, with_limits
from toolfold.interfaces.cli.output import prepare_folder, save_files
from toolfold.interfaces.cli.process import Exit, exit_of_status
from toolfold.interfaces.cli.setup import chosen_engine, configured, nearest_config
from toolfold.models import CallRecord, File, Limits, Outcome

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.engines.single import SingleUseServer
    from toolfold.ledger.base import Ledger
    from toolfold.runtime import Runtime


def run_program(options: RunOptions, open_runtime: Callable[..., Runtime] | None = None) -> int:
    """Run it, print it, and return the exit code."""
    order = _order(options)
    text, files, limits = order.text, order.files, order.limits
    if options.detach:
        # Imported here: hardly any run is left behind.
        from toolfold.interfaces.cli.commands.detached import leave_behind  # noqa: PLC0415

        return leave_behind(options, text, files, limits)
    if options.out is not None:
        prepare_folder(options.out)
    with _sandbox_ahead(order, is_wanted=open_runtime is None):
        # Imported here: the sandbox is being built meanwhile.
        from toolfold.interfaces.cli.load_tools import load_apis, load_tools  # noqa: PLC0415
        from toolfold.interfaces.cli.process import until_stopped  # noqa: PLC0415
        from toolfold.interfaces.cli.setup import open_for_command  # noqa: PLC0415
        from toolfold.interfaces.cli.terminal import is_live  # noqa: PLC0415
        from toolfold.runtime import Runtime  # noqa: PLC0415

        with stdout_to_stderr() as stdout:
            tools = [*load_tools(options.tools), *load_apis(options.apis)]
            ledger = open_for_command(options.ledger, order.config)
            made = partial(
                configured(order.config, text, open_runtime or Runtime),
                tools=tools,
                **order.engine,
                **approvals(order.config, options, ledger),
                limits=limits,
                ledger=ledger,
                door="cli",
                # Whoever wants spans has set something up by now: its own start, or the tools file.
                telemetry="opentelemetry" in sys.modules,
            )
            live = stdout if is_live(stdout, as_json=options.as_json) else None
            outcome = until_stopped(_run_once(made, ledger, options, live, text, files=files, limits=limits))
        return outcome if isinstance(outcome, int) else finish(outcome, options)


class _Order(NamedTuple):
    """What the options and the config come to."""

    config: Config | None
    engine: dict[str, Any]
    """Arguments of the runtime; each has its own type."""
    limits: Limits
    text: str
    files: tuple[File, ...]


def _order(options: RunOptions) -> _Order:
    if (options.code is None) == (not options.program):
        raise UsageError("one program is needed: name a file, `-` for stdin, or write it after -c")
    config = nearest_config(options.config)
    if options.is_verbose:
        logging.getLogger("toolfold").setLevel(logging.INFO)
    # One program is run, so no guest needs to wait for the next.
    chosen = chosen_engine(
        config, engine=options.engine, isolation=options.isolation, address=options.address, warm=1,
        accept_no_isolation=options.accept_no_isolation,
    )  # fmt: skip
    if chosen["engine_options"].get("isolation") == "none" and not options.accept_no_isolation:
        raise UsageError(
            "--isolation none lets a program do anything that you can do; "
            "if you mean it, add --i-accept-that-programs-can-do-anything"
        )
    usual = config.program_limits if config is not None else None
    usual = with_limits(options.limits, usual)
    limits = limits_for(options.timeout_seconds, as_json=options.as_json, usual=usual)
    text = options.code if options.code is not None else read_program(options.program, limits)
    return _Order(config, chosen, limits, text, read_files(options.files, limits))


@contextmanager
def _sandbox_ahead(order: _Order, *, is_wanted: bool) -> Iterator[None]:
    """The engine's sandbox, under way for as long as this lasts, where it can be begun with before the engine is."""
    single = _launched_ahead(order.engine, order.text, order.limits) if is_wanted else None
    if single is None:
        yield
        return
    order.engine["engine_options"]["_single"] = single
    try:
        yield
    finally:
        single.give_up()


# Any: each argument of the runtime has its own type.
def _launched_ahead(chosen: dict[str, Any], text: str, limits: Limits) -> SingleUseServer | None:
    """The sandbox, built while the rest is loaded, where it is the process engine without the host's libraries."""
    options = chosen["engine_options"]
    if chosen["engine"] != "process" or sys.platform != "linux":
        return None
    if options.get("host_libraries"):
        return None
    # Imported here: other engines do without.
    from toolfold.interfaces.cli.fast_start import launched  # noqa: PLC0415

    return launched(text, limits, isolation=options["isolation"], sets=options.get("library_sets", ()))


@contextmanager
def stdout_to_stderr() -> Iterator[int]:
    """What a tool or a process of its own prints must not be taken for the program's output, which has the handle."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield kept
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


# Any: options of `Runtime.run`.
async def _run_once(
    made: Callable[[], Runtime], ledger: Ledger, options: RunOptions, live: int | None, text: str, **given: Any
) -> Outcome:  # fmt: skip
    execution_id = secrets.token_hex(8)
    try:
        async with made() as runtime:
            given["execution_id"] = execution_id
            given["on_call"] = show_call(always=options.is_verbose)
            if live is not None:
                from toolfold.interfaces.cli.terminal import run_shown  # noqa: PLC0415 - as above

                return await run_shown(runtime, ledger, text, live, **given)
            return await runtime.run(text, **given)
    except asyncio.CancelledError:
        from toolfold.interfaces.cli.history import tell_stopped  # noqa: PLC0415 - hardly any program is stopped

        await tell_stopped(ledger, execution_id, where=options.ledger)
        raise
    finally:
        await ledger.close()


# Any: an option of the runtime.
def approvals(config: Config | None, options: RunOptions, ledger: Ledger) -> dict[str, Any]:
    """Arguments of `Runtime`: who is asked, where the config has tools to ask for, and not the console alone."""
    asks = config is not None and (config.tools.ask or config.tools.ask_destructive)
    if config is None or not asks or (config.approvals == "console" and not options.yes):
        return {}
    # Imported here: few programs ask.
    from toolfold.config.build import approvals_of  # noqa: PLC0415
    from toolfold.interfaces.cli.approval import approve_at_terminal, terminal_handle  # noqa: PLC0415

    if config.approvals == "both" and not options.yes and terminal_handle() is None:
        return {}  # the console is asked
    approve = approve_at_terminal(is_yes=options.yes)
    return {"approve": approve, **({} if options.yes else approvals_of(config, ledger, approve))}


def show_call(*, always: bool = False) -> Callable[[CallRecord], None] | None:
    if not always and not sys.stderr.isatty():
        return None
    # Imported here for the same reason.
    from toolfold.interfaces.cli.output import call_line  # noqa: PLC0415
    from toolfold.interfaces.cli.terminal import stage  # noqa: PLC0415

    def show(record: CallRecord) -> None:
        stage.clear()
        print(call_line(record), file=sys.stderr, flush=True)

    return show


def finish(outcome: Outcome, options: RunOptions) -> int:
    # Imported here for the same reason.
    from toolfold.interfaces.cli.output import print_json, print_text, unsaved_line  # noqa: PLC0415

    if options.as_json:
        print_json(outcome)
    else:
        print_text(outcome)
    if os.environ.get("TOOLFOLD_DEBUG"):
        for call in outcome.calls:
            if call.traceback:
                print(f"toolfold: call {call.id} of {call.name!r} failed\n{call.traceback}", file=sys.stderr, end="")
    code = exit_of_status(outcome.status)
    if options.out is None:
        if outcome.files and not options.as_json and sys.stderr.isatty():
            print(f"toolfold: {unsaved_line(outcome.files)}", file=sys.stderr)
        return code
    complaints = save_files(outcome.files, options.out)
    for complaint in complaints:
        print(f"toolfold: {complaint}", file=sys.stderr)
    return Exit.USAGE if complaints and code is Exit.FINISHED else code
