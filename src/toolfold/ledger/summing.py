"""What a listing shows of the calls of an execution that has ended: lanes, counts, uses of tools. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from toolfold.models import CallRecord, Outcome

WIDTH: Final = 1000
"""Of the drawing: bars are given in thousandths of the whole duration."""
_MOST_BARS: Final = 48
_MOST_LANES: Final = 5
_SAMPLED: Final = 16


class Use(msgspec.Struct, frozen=True, array_like=True):
    """What one execution did with one tool."""

    tool: str
    calls: int
    failed: int
    bytes_out: int
    seconds: tuple[float, ...]
    """Durations of some of its calls, spread evenly over them."""
    error: str = ""
    """The last one."""
    breaker: str = ""
    """What the tool's breaker did last: `opened`, `open` or `closed`; empty where it did nothing."""


def lanes_of(outcome: Outcome) -> tuple[tuple[int, int, int, int], ...]:
    """Bars of a tiny drawing: start, width, lane, and 1 for a call that failed; evenly picked if there are many."""
    calls = sorted(outcome.calls, key=lambda call: call.started_seconds)
    if not calls:
        return ()
    last = max(call.started_seconds + call.seconds for call in calls)
    whole = max(outcome.seconds, last, 1e-9)
    step = -(-len(calls) // _MOST_BARS)  # rounded up, so that the last ones are there, too
    free: list[float] = []
    bars = []
    for call in calls[::step]:
        end = call.started_seconds + call.seconds
        lane = next((lane for lane, until in enumerate(free) if until <= call.started_seconds), len(free))
        if lane < len(free):
            free[lane] = end
        elif lane < _MOST_LANES:
            free.append(end)
        else:
            lane = _MOST_LANES - 1
        start = min(WIDTH - 1, int(call.started_seconds / whole * WIDTH))
        width = max(1, min(WIDTH - start, int(call.seconds / whole * WIDTH)))
        bars.append((max(0, start), width, lane, int(call.error is not None)))
    return tuple(bars)


def uses_of(calls: Sequence[CallRecord]) -> list[Use]:
    """By tool, in the order of their first call; what came from a record was no use."""
    by_tool: dict[str, list[CallRecord]] = {}
    for call in calls:
        if not call.from_record:
            by_tool.setdefault(call.name, []).append(call)
    return [_use(tool, made) for tool, made in by_tool.items()]


def _use(tool: str, made: list[CallRecord]) -> Use:
    errors = [call.error for call in made if call.error is not None]
    return Use(
        tool=tool,
        calls=len(made),
        failed=len(errors),
        bytes_out=sum(call.bytes_out for call in made),
        seconds=tuple(round(call.seconds, 6) for call in made[:: -(-len(made) // _SAMPLED)]),
        error=errors[-1][:300] if errors else "",
        breaker=next((call.breaker for call in reversed(made) if call.breaker), ""),
    )
