"""`toolfold batch`: many programs in, a line of results for each; what has its line is not run again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from toolfold.doors.cli.batch_lines import Programs, Results, open_results
from toolfold.doors.cli.batch_summary import Bar, Summary
from toolfold.doors.cli.configured import chosen_engine, configured, nearest_config
from toolfold.doors.cli.exits import Exit
from toolfold.doors.cli.inputs import limits_for
from toolfold.doors.cli.ledgers import open_for_command
from toolfold.doors.cli.load import load_tools
from toolfold.doors.cli.loops import until_stopped
from toolfold.doors.cli.run import stdout_to_stderr
from toolfold.errors import UsageError
from toolfold.ledger.base import Ledger
from toolfold.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """One command line, as it was written."""

    programs: Path
    out: Path
    tools: tuple[str, ...] = ()
    config: Path | None = None
    timeout_seconds: float | None = None
    engine: str | None = None
    address: str | None = None
    in_flight: int | None = None
    ledger: str | None = None


def run_batch(options: BatchOptions) -> int:
    """Run what has no result yet, and return the exit code: 0 if every program has one."""
    config = nearest_config(options.config)
    limits = limits_for(options.timeout_seconds, as_json=True, usual=config.program_limits if config else None)
    if options.out.exists() and options.programs.exists() and options.out.samefile(options.programs):
        raise UsageError(f"--out is the file of programs, {str(options.out)!r}; name another")
    programs = Programs(options.programs, limits)
    with open_results(options.out) as results:
        summary, done = _earlier(results, programs)
        if len(done) < len(programs.ids):
            with stdout_to_stderr():
                # A batch is thousands of programs: they are in the ledger only where somebody says so.
                written = config is not None and bool(config.ledger.model_fields_set)
                ledger = open_for_command(options.ledger or (None if written else "memory"), config)
                made = partial(
                    # Any of the programs may mean a server's tool.
                    configured(config, "tools", Runtime), tools=load_tools(options.tools),
                    **chosen_engine(config, engine=options.engine, isolation=None, address=options.address),
                    limits=limits, ledger=ledger,
                    door="cli",
                )  # fmt: skip
                code = until_stopped(_run(made, ledger, programs, results, summary, done, options.in_flight))
        else:
            code = Exit.FINISHED
    summary.show()
    left = len(programs.ids) - summary.statuses.total()
    if left:
        said = f"{left} of {len(programs.ids)} programs have no result yet; start the command again to go on"
        print(f"toolfold: {said}", file=sys.stderr)
    return code


def _earlier(results: Results, programs: Programs) -> tuple[Summary, set[str]]:
    summary, done = Summary(), set[str]()
    for result in results.earlier():
        if result["id"] in programs.ids and result["id"] not in done:
            done.add(result["id"])
            summary.add(result)
    return summary, done


async def _run(
    made: Callable[[], Runtime], ledger: Ledger, programs: Programs, results: Results, summary: Summary,
    done: set[str], in_flight: int | None,
) -> int:  # fmt: skip
    try:
        async with made() as runtime:
            with Bar(summary, len(programs.ids)) as bar:
                async with aclosing(runtime.map(programs.items(done), in_flight=in_flight)) as outcomes:
                    async for one in outcomes:
                        results.add(one.tag, one.outcome)
                        summary.add({"id": one.tag, **one.outcome.to_dict()})
                        bar.advance()
    finally:
        await ledger.close()
    return Exit.FINISHED
