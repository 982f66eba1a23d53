"""`toolfold run`: inputs in, one program run, its outcome rendered; signals stop the program."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from toolfold.doors.cli.configured import chosen_engine, configured, nearest_config
from toolfold.doors.cli.exits import Exit, exit_of_status
from toolfold.doors.cli.inputs import limits_for, read_files, read_program
from toolfold.doors.cli.ledgers import open_for_command
from toolfold.doors.cli.load import load_apis, load_tools
from toolfold.doors.cli.loops import until_stopped
from toolfold.doors.cli.outputs import prepare_folder, save_files
from toolfold.doors.cli.render import call_line, print_json, print_text
from toolfold.errors import UsageError
from toolfold.ledger.record import Ledger
from toolfold.models import CallRecord, File, Limits, Outcome
from toolfold.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """One command line, as it was written."""

    program: str
    tools: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    engine: str | None = None
    """`None`: the config's, or the usual one; the same for the isolation."""
    isolation: str | None = None
    files: tuple[Path, ...] = ()
    out: Path | None = None
    as_json: bool = False
    accept_no_isolation: bool = False
    ledger: str | None = None
    config: Path | None = None


def run_program(options: RunOptions, open_runtime: Callable[..., Runtime] = Runtime) -> int:
    """Run it, print it, and return the exit code."""
    config = nearest_config(options.config)
    # One program is run, so no guest needs to wait for the next.
    chosen = chosen_engine(
        config, engine=options.engine, isolation=options.isolation, warm=1,
        accept_no_isolation=options.accept_no_isolation,
    )  # fmt: skip
    if chosen["engine_options"].get("isolation") == "none" and not options.accept_no_isolation:
        raise UsageError(
            "--isolation none lets a program do anything that you can do; "
            "if you mean it, add --i-accept-that-programs-can-do-anything"
        )
    usual = config.program_limits if config is not None else None
    limits = limits_for(options.timeout_seconds, as_json=options.as_json, usual=usual)
    text = read_program(options.program, limits)
    files = read_files(options.files, limits)
    if options.out is not None:
        prepare_folder(options.out)
    with stdout_to_stderr():
        tools = [*load_tools(options.tools), *load_apis(options.apis)]
        ledger = open_for_command(options.ledger, config)
        made = partial(
            configured(config, text, open_runtime),
            tools=tools,
            **chosen,
            limits=limits,
            ledger=ledger,
            door="cli",
        )
        outcome = until_stopped(_run_once(made, ledger, text, files, limits))
    return outcome if isinstance(outcome, int) else finish(outcome, options)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """What a tool or a process of its own prints must not be taken for the program's output."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


async def _run_once(
    made: Callable[[], Runtime], ledger: Ledger, text: str, files: tuple[File, ...], limits: Limits
) -> Outcome:
    try:
        async with made() as runtime:
            return await runtime.run(text, files=files, limits=limits, on_call=show_call())
    finally:
        await ledger.close()


def show_call() -> Callable[[CallRecord], None] | None:
    if not sys.stderr.isatty():
        return None
    return lambda record: print(call_line(record), file=sys.stderr, flush=True)


def finish(outcome: Outcome, options: RunOptions) -> int:
    if options.as_json:
        print_json(outcome)
    else:
        print_text(outcome)
    code = exit_of_status(outcome.status)
    if options.out is None:
        return code
    complaints = save_files(outcome.files, options.out)
    for complaint in complaints:
        print(f"toolfold: {complaint}", file=sys.stderr)
    return Exit.USAGE if complaints and code is Exit.FINISHED else code
