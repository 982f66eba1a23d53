"""Run command: `toolfold run` reads its inputs, runs one program and prints the outcome."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from toolfold.errors import UsageError
from toolfold.interfaces.cli.command_process import Exit, complain, exit_of_status, run_until_stopped, write_json
from toolfold.interfaces.cli.command_setup import choose_engine, nearest_config, open_for_command, runtime_factory
from toolfold.interfaces.cli.outcome_output import call_line, prepare_folder, print_text, save_files, unsaved_line
from toolfold.interfaces.cli.program_inputs import RunOptions, limits_for, read_program, with_limits
from toolfold.models import CallRecord, Limits, Outcome, ProgramOptions

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.interfaces.cli.command_setup import EngineChoice
    from toolfold.ledger.base import Ledger
    from toolfold.runtime import Runtime
    from toolfold.tools.tool import Approve


def run_program(options: RunOptions, open_runtime: Callable[..., Runtime] | None = None) -> int:
    """Run it, print it, and return the exit code."""
    setup = _prepare(options)
    if options.detach:
        from toolfold.interfaces.cli.commands.detached import start_detached

        return start_detached(options, setup.text, setup.program_options)
    if options.out is not None:
        prepare_folder(options.out)
    # Imported here: a run that is left behind has no sandbox in this process.
    from toolfold.interfaces.cli.fast_start import early_sandbox

    is_early = open_runtime is None and options.language == "python"
    with early_sandbox(setup.engine, setup.text, setup.limits) if is_early else nullcontext():
        outcome = execute(setup, options, open_runtime)
        return outcome if isinstance(outcome, int) else finish(outcome, options)


def execute(setup: RunSetup, options: RunOptions, open_runtime: Callable[..., Runtime] | None = None) -> Outcome | int:
    """Run a program to its end; the exit code instead, if a signal stopped it."""
    # Imported here: the sandbox is being built meanwhile.
    from toolfold.interfaces.cli.load_tools import load_apis, load_tools
    from toolfold.runtime import Runtime

    with stdout_to_stderr() as stdout:
        tools = [*load_tools(options.tools), *load_apis(options.apis, options.api_urls)]
        ledger = open_for_command(options.ledger, setup.config)
        make_runtime = partial(
            runtime_factory(setup.config, setup.text, open_runtime or Runtime),
            tools=tools,
            **setup.engine,
            approve=approver(setup.config, options, ledger),
            limits=setup.limits,
            ledger=ledger,
            interface="cli",
            # Whoever wants spans has set something up by now: its own start, or the tools file.
            telemetry="opentelemetry" in sys.modules,
        )
        live = stdout if not options.as_json and os.isatty(stdout) else None
        return run_until_stopped(_run_once(make_runtime, ledger, options, live, setup))


class RunSetup(NamedTuple):
    """Setup of a run, from the options and the config."""

    config: Config | None
    engine: EngineChoice
    limits: Limits
    text: str
    program_options: ProgramOptions


def _prepare(options: RunOptions) -> RunSetup:
    if (options.code is None) == (not options.program):
        raise UsageError("one program is needed: name a file, `-` for stdin, or write it after -c")
    config = nearest_config(options.config)
    if options.is_verbose:
        logging.getLogger("toolfold").setLevel(logging.INFO)
    # One program is run, so no guest needs to wait for the next.
    engine_arguments = choose_engine(
        config, engine=options.engine, isolation=options.isolation, address=options.address, warm=1,
        accept_no_isolation=options.accept_no_isolation,
    )  # fmt: skip
    if engine_arguments["engine_options"].get("isolation") == "none" and not options.accept_no_isolation:
        raise UsageError(
            "--isolation none lets a program do anything that you can do; "
            "if you mean it, add --i-accept-that-programs-can-do-anything"
        )
    memory = () if options.memory is None else (f"memory_bytes={options.memory}",)
    default_limits = with_limits((*options.limits, *memory), None if config is None else config.program_limits)
    limits = limits_for(options.timeout_seconds, as_json=options.as_json, default_limits=default_limits)
    text = options.code if options.code is not None else read_program(options.program, limits)
    return RunSetup(config, engine_arguments, limits, text, options.program_options(limits))


@contextmanager
def stdout_to_stderr() -> Iterator[int]:
    """Send what tools print to stderr; gives the handle of stdout, for the program's output."""
    sys.stdout.flush()
    saved_stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield saved_stdout
    finally:
        sys.stdout.flush()
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)


async def _run_once(
    make_runtime: Callable[[], Runtime], ledger: Ledger, options: RunOptions, live: int | None, setup: RunSetup
) -> Outcome:
    on_call = show_call(always=options.is_verbose)
    program_options = msgspec.structs.replace(setup.program_options, on_call=on_call)
    try:
        async with make_runtime() as runtime:
            if live is not None:
                from toolfold.interfaces.cli.live_terminal import run_and_show

                return await run_and_show(runtime, ledger, setup.text, live, program_options)
            return await runtime.run(setup.text, options=program_options)
    except asyncio.CancelledError:
        from toolfold.interfaces.cli.execution_views import report_stop

        await report_stop(ledger, program_options.execution_id, where=options.ledger)
        raise
    finally:
        await ledger.close()


def approver(config: Config | None, options: RunOptions, ledger: Ledger) -> Approve | None:
    """Approver at the terminal, if the config has tools that need approval and does not leave it to the console."""
    asks = config is not None and (config.tools.ask or config.tools.ask_destructive)
    if config is None or not asks or (config.approvals == "console" and not options.yes):
        return None
    from toolfold.config.build import approval_of
    from toolfold.interfaces.cli.approval import approve_at_terminal, terminal_handle

    if config.approvals == "both" and not options.yes and terminal_handle() is None:
        return None  # the console is asked
    approve = approve_at_terminal(is_yes=options.yes)
    return approve if options.yes else approval_of(config, ledger, approve) or approve


def show_call(*, always: bool = False) -> Callable[[CallRecord], None] | None:
    if not always and not sys.stderr.isatty():
        return None
    from toolfold.interfaces.cli.live_terminal import drawing_area

    def show(record: CallRecord) -> None:
        drawing_area.clear()
        print(call_line(record), file=sys.stderr, flush=True)

    return show


def finish(outcome: Outcome, options: RunOptions) -> int:
    if options.as_json:
        write_json(outcome.to_dict())
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
    return complain(*complaints, code=Exit.USAGE if complaints and code is Exit.FINISHED else code)
