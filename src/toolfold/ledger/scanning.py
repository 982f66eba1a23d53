"""Listings and statistics of ledgers without an index of their own: rows are looked through, newest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile, islice, takewhile
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from toolfold.ledger.record import Filter, Summary
from toolfold.ledger.summing import Use, lanes_of, uses_of
from toolfold.models import Outcome

Row: TypeAlias = tuple[Summary, tuple[Use, ...]]
Saving: TypeAlias = tuple[float, str, int, int, int]


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """What is kept beside the row of an execution that has ended."""

    failed: int
    saved_bytes: int
    lanes: tuple[tuple[int, int, int, int], ...]
    uses: tuple[Use, ...]


class Statistics(Protocol):
    """What a console reads beside executions; every ledger of ours has it."""

    async def counts(self, since: float, tenant: str | None = None) -> dict[str, int]: ...
    async def savings(self, since: float, bucket: float, tenant: str | None = None) -> Sequence[Saving]: ...
    async def uses(self, limit: int, tenant: str | None = None) -> Sequence[tuple[float, Use]]: ...


encode_facts: Final = msgspec.msgpack.Encoder().encode
decode_facts: Final = msgspec.msgpack.Decoder(Facts).decode


def facts_of(outcome: Outcome) -> Facts:
    """Of an outcome."""
    return Facts(
        failed=sum(call.error is not None for call in outcome.calls),
        saved_bytes=outcome.context_saved.bytes,
        lanes=lanes_of(outcome),
        uses=tuple(uses_of(outcome.calls)),
    )


def with_facts(summary: Summary, facts: Facts | None) -> Row:
    """A row of a page."""
    if facts is None:
        return summary, ()
    whole = replace(summary, failed=facts.failed, saved_bytes=facts.saved_bytes, lanes=facts.lanes)
    return whole, facts.uses


class Scanned:
    """For a ledger without indexes to inherit from: it gives rows, and the rest is here."""

    def _rows(self, tenant: str | None) -> Iterator[Row]:
        """Newest first; each is made when it is asked for."""
        raise NotImplementedError

    async def search(self, wanted: Filter, *, limit: int = 50, before: str = "") -> Sequence[Summary]:
        rows = self._rows(wanted.tenant)
        if before:
            # Not by time: more than one may have begun in the same moment.
            rows = islice(dropwhile(lambda row: row[0].execution_id != before, rows), 1, None)
        if wanted.since is not None:
            earliest = wanted.since
            rows = takewhile(lambda row: row[0].began_at >= earliest, rows)
        return [summary for summary, _ in islice((row for row in rows if is_wanted(*row, wanted)), limit)]

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
                of = sums[summary.began_at // bucket * bucket, summary.door]
                of[0] += 1
                of[1 if summary.saved_bytes >= 0 else 2] += abs(summary.saved_bytes)
        return [(at, door, *figures) for (at, door), figures in sorted(sums.items())]  # type: ignore[misc]

    async def uses(self, limit: int, tenant: str | None = None) -> Sequence[tuple[float, Use]]:
        return [(summary.began_at, use) for summary, uses in islice(self._rows(tenant), limit) for use in uses]


# Any: the fields of a filter.
def is_wanted(summary: Summary, uses: Sequence[Use], wanted: Filter) -> bool:
    """Whether an execution is one of those."""
    same: list[tuple[Any, Any]] = [
        (wanted.id, summary.execution_id),
        (wanted.state, summary.state),
        (wanted.status, summary.status),
        (wanted.door, summary.door),
        (wanted.tenant, summary.tenant),
        (wanted.session, summary.session),
    ]
    return (
        all(asked is None or asked == found for asked, found in same)
        and (wanted.tool is None or any(use.tool == wanted.tool for use in uses))
        and (wanted.since is None or summary.began_at >= wanted.since)
        and (wanted.until is None or summary.began_at < wanted.until)
        and (not wanted.text or wanted.text.lower() in summary.first_line.lower())
    )
