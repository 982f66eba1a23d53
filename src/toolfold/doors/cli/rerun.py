"""`toolfold runs rerun`: a corrected program beside the record of the earlier one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolfold.doors.cli.configured import chosen_engine, configured
from toolfold.doors.cli.inputs import limits_for, read_program
from toolfold.doors.cli.live import is_live, run_shown
from toolfold.doors.cli.load import load_tools
from toolfold.doors.cli.loops import until_stopped
from toolfold.doors.cli.options import RunOptions
from toolfold.doors.cli.outputs import prepare_folder
from toolfold.doors.cli.run import approvals, finish, show_call, stdout_to_stderr
from toolfold.ledger.base import History, Ledger
from toolfold.models import Outcome
from toolfold.runtime import Runtime

if TYPE_CHECKING:
    from toolfold.config import Config


def rerun(
    options: RunOptions, ledger: Ledger, earlier: History, *, repeat: Sequence[str] | None = None,
    config: Config | None = None,
) -> int:  # fmt: skip
    """Run it, print it, say how much came from the record, and return the exit code."""
    begun = earlier.begun
    output_bytes = limits_for(None, as_json=options.as_json).output_bytes
    limits = replace(begun.limits, output_bytes=output_bytes)
    text = read_program(options.program, limits) if options.program else begun.program.sent_text
    if options.out is not None:
        prepare_folder(options.out)

    async def once(runtime: Runtime) -> Outcome:
        async with runtime:
            given: Any = {"files": begun.files, "limits": limits, "rerun_of": begun.execution_id, "repeat": repeat}
            given |= {"stdin": begun.program.stdin, "clock": begun.program.clock}
            if is_live(stdout, as_json=options.as_json):
                return await run_shown(runtime, ledger, text, stdout, on_call=show_call(), **given)
            return await runtime.run(text, on_call=show_call(), **given)

    with stdout_to_stderr() as stdout:
        runtime = configured(config, text, Runtime)(
            tools=load_tools(options.tools),
            **chosen_engine(config, engine=options.engine, isolation=options.isolation, warm=1),
            **approvals(config, options, ledger),
            limits=limits,
            ledger=ledger,
            door="cli",
        )
        outcome = until_stopped(once(runtime))
    if isinstance(outcome, int):
        return outcome
    code = finish(outcome, options)
    if outcome.calls:
        known = sum(call.from_record and call.error is None for call in outcome.calls)
        whole = len(outcome.calls)
        print(f"toolfold: {known} of {whole} calls came from the record of {begun.execution_id}", file=sys.stderr)
    return code
