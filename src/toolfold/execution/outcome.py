"""What became of a program, put together from its parts when it has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from toolfold.execution.host_files import host_file_hints
from toolfold.execution.savings import context_saved
from toolfold.models import Outcome
from toolfold.tools.values import json_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolfold.engines.base import Ended, Engine
    from toolfold.execution.calls import Calls
    from toolfold.execution.output import Streams
    from toolfold.models import Begun, CallRecord, ContextSaved


def outcome_of(
    ended: Ended, begun: Begun, engine: Engine, *, began: float, code_bytes: int, output: Streams,
    calls: Calls | None,
) -> Outcome:  # fmt: skip
    """The outcome that the caller sees; `output` keeps more than it shows. `None` for a program without calls."""
    stdout, stdout_cut_bytes = output.stdout.cut()
    stderr, stderr_cut_bytes = output.stderr.cut()
    records = calls.records() if calls is not None else ()
    hints = (*begun.program.notes, *engine.notes, *ended.notes)
    if calls is not None:
        hints += _call_hints(ended, records, calls.accounts.not_repeated)
    if ended.problem is not None:
        hints += host_file_hints(ended.problem, begun)
    return Outcome(
        execution_id=begun.execution_id,
        status=ended.status,
        value=ended.value,
        stdout=stdout,
        stderr=stderr,
        stdout_cut_bytes=stdout_cut_bytes,
        stderr_cut_bytes=stderr_cut_bytes,
        problem=ended.problem,
        calls=records,
        files=ended.files,
        engine=engine.name,
        isolation=engine.isolation,
        seconds=time.perf_counter() - began,
        context_saved=_saved(records, ended, code_bytes, stdout + stderr),
        hints=hints,
        stdout_tail=output.stdout.tail() if stdout_cut_bytes else "",
        shapes=calls.accounts.lately.shapes(ended, stdout, begun.program.text, begun.tools)
        if calls is not None
        else (),
    )


def _call_hints(ended: Ended, records: Sequence[CallRecord], not_repeated: Sequence[str]) -> tuple[str, ...]:
    hints: tuple[str, ...] = ()
    if not_repeated:
        names = ", ".join(sorted(set(not_repeated)))
        hints += (f"not called again, because whether they ran before is not on record: {names}",)
    if len(records) == 1 and ended.status == "finished":
        hints += (f"one call only: a direct call of {records[0].name!r} would do",)
    return hints


def _saved(records: Sequence[CallRecord], ended: Ended, code_bytes: int, shown: str) -> ContextSaved:
    shown_bytes = len(shown) if shown.isascii() else len(shown.encode())
    if ended.value is not None:
        shown_bytes += json_size(ended.value)
    return context_saved(
        records, code_bytes=code_bytes, shown_bytes=shown_bytes, is_finished=ended.status == "finished"
    )
