"""Ledger in memory, which ends with its process: for tests, and for runtimes that need no record.

Outcomes are encoded when the loop has time, or when somebody asks: whoever ran the program need not wait for that.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, islice, takewhile
from typing import Final

from msgspec.structs import replace

from toolfold.ledger import base, codec
from toolfold.ledger.encryption import Seal, seal_with_bytes
from toolfold.ledger.execution_summaries import (
    Facts,
    Row,
    Saving,
    ToolUse,
    as_text,
    decode_names,
    encode_names,
    facts_of,
    matches_filter,
)
from toolfold.ledger.sqlite.listing import MOST_LESSONS
from toolfold.ledger.sqlite.listing import decode as _decode_lesson
from toolfold.ledger.sqlite.listing import encode as _encode_lesson
from toolfold.models import MIB, CallRecord, Outcome
from toolfold.steady_clock import SteadyClock
from toolfold.tools.learned_replies import MOST_TOOLS, Lesson, merge_lessons

SMALL: Final = base.Retention(executions=200, total_bytes=64 * MIB)
_SPOILT: Final = codec.encode_entry(base.TapeEntry(is_spoilt=True))


@dataclass(slots=True)
class _Execution:
    start_record: base.StartRecord
    # Encoded, as on a disk: tools may change what they returned, and the size must be known.
    entries: list[bytes] = field(default_factory=list)
    call_records: dict[int, CallRecord] = field(default_factory=dict)
    calls: int = 0
    state: base.State = "running"
    epoch: int = 0
    status: str = ""
    seconds: float = 0.0
    outcome: bytes | None = None
    facts: Facts | None = None
    decisions: dict[tuple[int, int], bytes] = field(default_factory=dict)
    snapshot: bytes | None = None
    bytes: int = 0
    is_full: bool = False
    touched_at: float = 0.0


class MemoryLedger:
    """A `Ledger` of the newest executions; the oldest ended ones make room."""

    is_lasting = False
    is_sealed = False

    def __init__(self, *, keep: base.Retention = SMALL, max_execution_bytes: int = base.MAX_EXECUTION_BYTES) -> None:
        self._keep = keep
        self._max_bytes = max_execution_bytes
        self._executions: dict[str, _Execution] = {}
        self._tenants: Counter[str] = Counter()
        self._bytes = 0
        self._snapshot_key = secrets.token_bytes(32)
        self._lessons: dict[tuple[str, str], bytes] = {}
        self._clock = SteadyClock()
        self._changes = 0
        self._followers: set[asyncio.Queue[base.LedgerChange]] = set()
        self._pending_outcomes: list[tuple[_Execution, Outcome]] = []
        """Outcomes that are to be encoded."""

    def now(self) -> float:
        return self._clock.now()

    def begin(self, start_record: base.StartRecord) -> None:
        if start_record.execution_id in self._executions:
            raise base.duplicate_error(start_record.execution_id)
        self._encode_pending()
        execution = self._executions[start_record.execution_id] = _Execution(start_record)
        self._tenants[start_record.tenant] += 1
        size = len(start_record.program.sent_text) + (
            sum([file.size for file in start_record.files]) if start_record.files else 0
        )
        if size > self._max_bytes:
            execution.start_record, execution.is_full = replace(start_record, files=()), True
            size = len(start_record.program.sent_text)
            execution.entries.append(_SPOILT)
        self._count(execution, size)
        if self._followers:
            self._notify(execution)
        if len(self._executions) > self._keep.executions:
            self._make_room()

    def note(self, execution_id: str, *entries: base.Entry, epoch: int = 0) -> None:
        self._encode_pending()
        execution = self._find_writable(execution_id, epoch)
        if execution.is_full:
            return
        bodies = execution.entries
        size, remaining_bytes = 0, self._max_bytes - execution.bytes
        for entry in entries:
            body = codec.encode_entry(entry)
            size += len(body)
            if size > remaining_bytes:
                execution.is_full = True
                size += len(_SPOILT) - len(body)
                bodies.append(_SPOILT)
                break
            bodies.append(body)
            if isinstance(entry, base.ReplyEntry):
                execution.call_records[entry.record.id] = entry.record
            else:
                execution.calls += codec.is_call(body)
        self._count(execution, size)
        if self._followers:
            self._notify(execution)

    async def flush(self, execution_id: str) -> None:
        self._encode_pending()
        execution = self._executions.get(execution_id)
        if execution is None:
            raise base.unknown_error(execution_id)
        if execution.is_full:
            raise base.full_error(execution_id, self._max_bytes)

    def secure(self, execution_id: str, *entries: base.Entry, epoch: int = 0) -> Awaitable[None]:
        self.note(execution_id, *entries, epoch=epoch)
        return self.flush(execution_id)

    async def park(self, execution_id: str, *, epoch: int = 0, snapshot: base.SealedSnapshot | None = None) -> None:
        execution = self._find_writable(execution_id, epoch)
        await self.flush(execution_id)
        if snapshot is not None and execution.bytes + len(snapshot.body) <= self._max_bytes:
            self._append(execution, codec.encode_entry(base.PauseEntry(snapshot.round)))
            self._store_snapshot(execution, snapshot.body)
        execution.state = "paused"
        self._notify(execution)

    async def accept(self, execution_id: str, entries: Sequence[base.ReplyEntry], *, epoch: int = 0) -> None:
        self._encode_pending()
        execution = self._find_writable(execution_id, epoch)
        bodies = [codec.encode_entry(entry) for entry in entries]
        if execution.is_full or execution.bytes + sum(map(len, bodies)) > self._max_bytes:
            raise base.full_error(execution_id, self._max_bytes)
        for body in bodies:
            self._append(execution, body)
        execution.state = "running"
        self._notify(execution)

    async def takeover(self, execution_id: str) -> int:
        execution = self._find_writable(execution_id, None)
        execution.epoch += 1
        return execution.epoch

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0, wait: bool = False) -> None:
        execution = self._find_writable(execution_id, epoch)
        execution.state, execution.status, execution.seconds = "ended", outcome.status, outcome.seconds
        self._pending_outcomes.append((execution, outcome))
        # The caller may change what it is given.
        if isinstance(outcome.value, (dict, list)):
            self._encode_pending()
        elif len(self._pending_outcomes) == 1:
            asyncio.get_running_loop().call_soon(self._encode_pending)

    def _store_outcome(self, execution: _Execution, outcome: Outcome) -> None:
        body = codec.encode_outcome(outcome, {} if execution.is_full else execution.call_records)
        if len(body) > self._max_bytes:
            body = codec.encode_truncated(outcome, self._max_bytes)
        execution.outcome = body
        execution.call_records.clear()
        self._store_snapshot(execution, None)
        self._count(execution, len(body))
        if self._followers:
            self._notify(execution)
        if self._bytes > self._keep.total_bytes:
            self._sweep(self._keep)

    async def sweep(self, keep: base.Retention | None = None) -> int:
        """Forget now what `keep`, or the ledger's own retention, does not allow; how many executions went."""
        self._encode_pending()
        return self._sweep(keep or self._keep)

    async def delete(self, execution_id: str) -> bool:
        self._encode_pending()
        is_known = execution_id in self._executions
        if is_known:
            self._forget(execution_id)
        return is_known

    async def load(self, execution_id: str) -> base.ExecutionHistory | None:
        self._encode_pending()
        execution = self._executions.get(execution_id)
        if execution is None:
            return None
        entries = codec.decode_entries(codec.join_entries(execution.entries))
        return base.ExecutionHistory(
            start_record=execution.start_record, entries=tuple(entries), state=execution.state, epoch=execution.epoch,
            outcome=None if execution.outcome is None else codec.decode_outcome(execution.outcome, entries),
            is_full=execution.is_full,
        )  # fmt: skip

    async def snapshot(self, execution_id: str) -> bytes | None:
        execution = self._executions.get(execution_id)
        return None if execution is None else execution.snapshot

    def snapshot_seal(self) -> Seal | None:
        # Made anew each time: a cipher cannot be copied, a ledger can.
        return seal_with_bytes(self._snapshot_key)

    async def find(self, prefix: str, *, limit: int = 2) -> list[str]:
        self._encode_pending()
        return sorted(key for key in self._executions if key.startswith(prefix))[:limit]

    async def list(
        self, *, limit: int = 50, before: float | None = None, tenant: str | None = None
    ) -> list[base.ExecutionSummary]:
        return [*await self.search(base.ExecutionFilter(tenant=tenant, until=before), limit=limit)]

    async def story(self, execution_id: str, *, after: int = 0) -> base.Story | None:
        self._encode_pending()
        execution = self._executions.get(execution_id)
        if execution is None:
            return None
        entries = codec.decode_entries(codec.join_entries(execution.entries[max(0, after) :]))
        outcome = None if execution.outcome is None else codec.decode_outcome(execution.outcome, ())
        place = len(execution.entries)
        return base.Story(
            state=execution.state, epoch=execution.epoch, place=place, entries=tuple(entries), outcome=outcome
        )

    async def follow(self, after: str | None = None) -> AsyncIterator[base.LedgerChange]:
        changes: asyncio.Queue[base.LedgerChange] = asyncio.Queue()
        self._followers.add(changes)
        try:
            # What happened while nobody followed was not kept.
            yield base.LedgerChange(cursor=str(self._changes), execution_id="")
            while True:
                yield await changes.get()
        finally:
            self._followers.discard(changes)

    def _notify(self, execution: _Execution) -> None:
        self._changes += 1
        change = base.LedgerChange(cursor=str(self._changes), execution_id=execution.start_record.execution_id)
        for changes in self._followers:
            changes.put_nowait(change)

    async def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        execution = self._executions.get(execution_id)
        if execution is None or (epoch, call_id) in execution.decisions:
            return False
        execution.decisions[epoch, call_id] = body
        self._notify(execution)
        return True

    async def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        execution = self._executions.get(execution_id)
        return None if execution is None else execution.decisions.get((epoch, call_id))

    async def search(
        self, query: base.ExecutionFilter, *, limit: int = 50, before: str = ""
    ) -> Sequence[base.ExecutionSummary]:
        query = as_text(query)
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

    def _rows(self, tenant: str | None) -> Iterator[Row]:
        """Newest first; each is made when it is needed."""
        self._encode_pending()
        executions = [
            execution
            for execution in reversed(self._executions.values())
            if tenant in (None, execution.start_record.tenant)
        ]
        executions.sort(key=lambda execution: execution.start_record.began_at, reverse=True)
        for execution in executions:
            if execution.facts is None and execution.outcome is not None:
                entries = codec.decode_entries(codec.join_entries(execution.entries))
                execution.facts = facts_of(codec.decode_outcome(execution.outcome, entries))
            yield _summary(execution), () if execution.facts is None else execution.facts.uses

    def learn(self, tenant: str, lesson: Lesson) -> None:
        key = (tenant, lesson.tool)
        body = self._lessons.pop(key, None)
        self._lessons[key] = _encode_lesson(merge_lessons(None if body is None else _decode_lesson(body), lesson))
        if body is not None:
            return
        tenant_keys = [lesson_key for lesson_key in self._lessons if lesson_key[0] == tenant]
        if len(tenant_keys) > MOST_TOOLS:
            del self._lessons[tenant_keys[0]]
        if len(self._lessons) > MOST_LESSONS:
            del self._lessons[next(iter(self._lessons))]

    async def learned(self, tenant: str) -> Sequence[Lesson]:
        return [_decode_lesson(body) for (owner, _), body in self._lessons.items() if owner == tenant]

    async def is_there(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing to let go of: it can be read as long as it is held."""

    def _encode_pending(self) -> None:
        """Encode and count what has waited for it."""
        while self._pending_outcomes:
            self._store_outcome(*self._pending_outcomes.pop(0))

    def _find_writable(self, execution_id: str, epoch: int | None) -> _Execution:
        execution = self._executions.get(execution_id)
        if execution is None:
            raise base.unknown_error(execution_id)
        if epoch is not None and execution.epoch != epoch:
            raise base.fenced_error(execution_id)
        if execution.state == "ended":
            raise base.ended_error(execution_id)
        return execution

    def _store_snapshot(self, execution: _Execution, body: bytes | None) -> None:
        self._count(execution, len(body or b"") - len(execution.snapshot or b""))
        execution.snapshot = body

    def _append(self, execution: _Execution, body: bytes) -> None:
        execution.entries.append(body)
        execution.calls += codec.is_call(body)
        self._count(execution, len(body))

    def _count(self, execution: _Execution, size: int) -> None:
        execution.bytes += size
        execution.touched_at = time.monotonic()
        self._bytes += size

    def _sweep(self, keep: base.Retention) -> int:
        now, on_clock = time.monotonic(), self.now()
        before = len(self._executions)
        for key, execution in tuple(self._executions.items()):
            age = keep.age_seconds if execution.state == "ended" else keep.open_seconds
            expires_at = execution.start_record.expires_at if execution.state != "ended" else 0.0
            if now - execution.touched_at >= age or (expires_at and on_clock >= expires_at + base.EXPIRED_SECONDS):
                self._forget(key)
        while len(self._executions) > keep.executions or self._bytes > keep.total_bytes:
            if not self._make_room():
                break
        return before - len(self._executions)

    def _make_room(self) -> bool:
        """Forget the first that has ended, of the tenant that has the most; false if none has.

        A whole sweep for every program would cost more than the rest.
        """
        most = max(self._tenants, key=self._tenants.__getitem__, default="")
        oldest = None
        for key, execution in self._executions.items():
            if execution.state == "ended":
                oldest = oldest or key
                if execution.start_record.tenant == most:
                    oldest = key
                    break
        if oldest is not None:
            self._forget(oldest)
        return oldest is not None

    def _forget(self, execution_id: str) -> None:
        execution = self._executions.pop(execution_id)
        self._bytes -= execution.bytes
        self._tenants[execution.start_record.tenant] -= 1
        if not self._tenants[execution.start_record.tenant]:
            del self._tenants[execution.start_record.tenant]


def _summary(execution: _Execution) -> base.ExecutionSummary:
    start_record, facts = execution.start_record, execution.facts
    return base.ExecutionSummary(
        execution_id=start_record.execution_id, state=execution.state, status=execution.status,
        began_at=start_record.began_at, seconds=execution.seconds, calls=execution.calls,
        first_line=base.first_line(start_record.program.sent_text), session=start_record.session,
        tenant=start_record.tenant, interface=start_record.interface, failed=0 if facts is None else facts.failed,
        saved_bytes=0 if facts is None else facts.saved_bytes, lanes=() if facts is None else facts.lanes,
        **decode_names(encode_names(start_record)),
    )  # fmt: skip
