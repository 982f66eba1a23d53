"""Listings and statistics of ledgers without an index, and changes of one execution as they are written."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from toolfold.ledger.base import ExecutionFilter, ExecutionSummary
from toolfold.models import CallRecord, Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolfold.ledger.base import Ledger, Story


# ----------------------------------------------------------------------------------------------------
# What a listing shows of the calls of an execution that has ended: lanes, counts, uses of tools. Pure.

WIDTH: Final = 1000
"""Of the drawing: bars are given in thousandths of the whole duration."""
_MOST_BARS: Final = 48
_MOST_LANES: Final = 5
_SAMPLED: Final = 16


class ToolUse(msgspec.Struct, frozen=True, array_like=True):
    """Use of one tool by one execution."""

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


def uses_of(calls: Sequence[CallRecord]) -> list[ToolUse]:
    """By tool, in the order of their first call; what came from a record was no use."""
    by_tool: dict[str, list[CallRecord]] = {}
    for call in calls:
        if not call.from_record:
            by_tool.setdefault(call.name, []).append(call)
    return [_use(tool, tool_calls) for tool, tool_calls in by_tool.items()]


def _use(tool: str, calls: list[CallRecord]) -> ToolUse:
    errors = [call.error for call in calls if call.error is not None]
    return ToolUse(
        tool=tool,
        calls=len(calls),
        failed=len(errors),
        bytes_out=sum(call.bytes_out for call in calls),
        seconds=tuple(round(call.seconds, 6) for call in calls[:: -(-len(calls) // _SAMPLED)]),
        error=errors[-1][:300] if errors else "",
        breaker=next((call.breaker for call in reversed(calls) if call.breaker), ""),
    )


Row: TypeAlias = tuple[ExecutionSummary, tuple[ToolUse, ...]]
Saving: TypeAlias = tuple[float, str, int, int, int]


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """Facts stored beside the row of an ended execution."""

    failed: int
    saved_bytes: int
    lanes: tuple[tuple[int, int, int, int], ...]
    uses: tuple[ToolUse, ...]


class Statistics(Protocol):
    """Statistics that a console reads; every ledger of ours has them."""

    async def counts(self, since: float, tenant: str | None = None) -> dict[str, int]: ...
    async def savings(self, since: float, bucket: float, tenant: str | None = None) -> Sequence[Saving]: ...
    async def uses(self, limit: int, tenant: str | None = None) -> Sequence[tuple[float, ToolUse]]: ...


encode_facts: Final = msgspec.msgpack.Encoder().encode
decode_facts: Final = msgspec.msgpack.Decoder(Facts).decode


def facts_of(outcome: Outcome) -> Facts:
    """Facts of an outcome."""
    return Facts(
        failed=sum(call.error is not None for call in outcome.calls),
        saved_bytes=outcome.context_saved.bytes,
        lanes=lanes_of(outcome),
        uses=tuple(uses_of(outcome.calls)),
    )


def with_facts(summary: ExecutionSummary, facts: Facts | None) -> Row:
    """A row of a page."""
    if facts is None:
        return summary, ()
    whole = replace(summary, failed=facts.failed, saved_bytes=facts.saved_bytes, lanes=facts.lanes)
    return whole, facts.uses


class UnindexedListing:
    """For a ledger without indexes to inherit from: it gives rows, and the rest is here."""

    def _rows(self, tenant: str | None) -> Iterator[Row]:
        """Newest first; each is made when it is asked for."""
        raise NotImplementedError

    async def search(self, query: ExecutionFilter, *, limit: int = 50, before: str = "") -> Sequence[ExecutionSummary]:
        rows = self._rows(query.tenant)
        if before:
            # Not by time: more than one may have begun in the same moment.
            rows = islice(dropwhile(lambda row: row[0].execution_id != before, rows), 1, None)
        if query.since is not None:
            earliest = query.since
            rows = takewhile(lambda row: row[0].began_at >= earliest, rows)
        return [summary for summary, _ in islice((row for row in rows if matches_filter(*row, query)), limit)]

    async def counts(self, since: float, tenant: str | None = None) -> dict[str, int]:
        counts = {"running": 0, "paused": 0, "recent": 0, "failed": 0}
        for summary, _ in self._rows(tenant):
            if summary.state != "ended":
                counts[summary.state] += 1
            if summary.began_at >= since:
                counts["recent"] += 1
                counts["failed"] += summary.status not in ("", "finished", "cancelled")
        return counts

    async def savings(self, since: float, bucket: float, tenant: str | None = None) -> Sequence[Saving]:
        sums: dict[tuple[float, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for summary, _ in takewhile(lambda row: row[0].began_at >= since, self._rows(tenant)):
            if summary.state == "ended":
                totals = sums[summary.began_at // bucket * bucket, summary.interface]
                totals[0] += 1
                totals[1 if summary.saved_bytes >= 0 else 2] += abs(summary.saved_bytes)
        return [(at, interface, *figures) for (at, interface), figures in sorted(sums.items())]  # type: ignore[misc]

    async def uses(self, limit: int, tenant: str | None = None) -> Sequence[tuple[float, ToolUse]]:
        return [(summary.began_at, use) for summary, uses in islice(self._rows(tenant), limit) for use in uses]


# Any: the fields of a filter.
def matches_filter(summary: ExecutionSummary, uses: Sequence[ToolUse], query: ExecutionFilter) -> bool:
    """Whether an execution is one of those."""
    pairs: list[tuple[Any, Any]] = [
        (query.id, summary.execution_id),
        (query.state, summary.state),
        (query.status, summary.status),
        (query.interface, summary.interface),
        (query.tenant, summary.tenant),
        (query.session, summary.session),
    ]
    return (
        all(expected is None or expected == actual for expected, actual in pairs)
        and (query.tool is None or any(use.tool == query.tool for use in uses))
        and (query.since is None or summary.began_at >= query.since)
        and (query.until is None or summary.began_at < query.until)
        and (not query.text or query.text.lower() in summary.first_line.lower())
    )


# ----------------------------------------------------------------------------------------------------
# One execution, followed from any process: what is on record of it, again whenever something was written.

_LOOK_SECONDS: Final = 1.0


async def changes_of(ledger: Ledger, execution_id: str) -> AsyncIterator[Story]:
    """Its story from the start, then what came since, at least every second; ends with it, or if it is forgotten."""
    # Any: an async generator, which the contract calls an iterator.
    changes: Any = ledger.follow()
    next_change = asyncio.ensure_future(anext(changes))
    place = 0
    try:
        while True:
            story = await ledger.story(execution_id, after=place)
            if story is None:
                return
            yield story
            if story.state == "ended":
                return
            place = story.place
            deadline = asyncio.get_running_loop().time() + _LOOK_SECONDS
            while True:
                remaining_seconds = deadline - asyncio.get_running_loop().time()
                done, _ = await asyncio.wait([next_change], timeout=max(0.0, remaining_seconds))
                if not done:
                    break  # that it was forgotten is told to nobody
                change = next_change.result()
                next_change = asyncio.ensure_future(anext(changes))
                if change.execution_id in ("", execution_id):
                    break
    finally:
        next_change.cancel()
        with suppress(BaseException):
            await next_change
        await changes.aclose()
