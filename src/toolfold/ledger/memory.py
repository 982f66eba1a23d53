"""A ledger that ends with its process: for tests, and for runtimes that need no record.

Outcomes are encoded when the loop has time, or when somebody asks: whoever ran the program need not wait for that.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from toolfold.clocks import SteadyClock
from toolfold.ledger import base, codec
from toolfold.ledger.base import (
    EXPIRED_SECONDS,
    MAX_EXECUTION_BYTES,
    Change,
    Entry,
    Filter,
    Given,
    History,
    Parked,
    Retention,
    Sealed,
    StartRecord,
    State,
    Story,
    Summary,
    Tape,
    first_line,
)
from toolfold.ledger.encryption import Seal, seal_with_bytes
from toolfold.ledger.listing import Facts, Row, Scanned, facts_of, with_facts
from toolfold.ledger.sqlite.listing import MemoryLessons
from toolfold.models import MIB, CallRecord, Outcome
from toolfold.tools.learning import Lesson

SMALL: Final = Retention(executions=200, total_bytes=64 * MIB)
_SPOILT: Final = codec.encode_entry(Tape(is_spoilt=True))


@dataclass(slots=True)
class _Execution:
    start_record: StartRecord
    # Encoded, as on a disk: tools may change what they returned, and the size must be known.
    entries: list[bytes] = field(default_factory=list)
    noted: dict[int, CallRecord] = field(default_factory=dict)
    calls: int = 0
    state: State = "running"
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


class MemoryLedger(Scanned):
    """A `Ledger` of the newest executions; the oldest ended ones make room."""

    is_lasting = False
    is_sealed = False

    def __init__(self, *, keep: Retention = SMALL, max_execution_bytes: int = MAX_EXECUTION_BYTES) -> None:
        self._keep = keep
        self._max_bytes = max_execution_bytes
        self._executions: dict[str, _Execution] = {}
        self._tenants: Counter[str] = Counter()
        self._bytes = 0
        self._snapshot_key = secrets.token_bytes(32)
        self._lessons = MemoryLessons()
        self._clock = SteadyClock()
        self._changes = 0
        self._followers: set[asyncio.Queue[Change]] = set()
        self._unsettled: list[tuple[_Execution, Outcome]] = []
        """Outcomes that are to be encoded."""

    def now(self) -> float:
        return self._clock.now()

    def begin(self, begun: StartRecord) -> None:
        if begun.execution_id in self._executions:
            raise base.twice(begun.execution_id)
        self._settle()
        kept = self._executions[begun.execution_id] = _Execution(begun)
        self._tenants[begun.tenant] += 1
        size = len(begun.program.sent_text) + (sum([file.size for file in begun.files]) if begun.files else 0)
        if size > self._max_bytes:
            kept.start_record, kept.is_full, size = replace(begun, files=()), True, len(begun.program.sent_text)
            kept.entries.append(_SPOILT)
        self._count(kept, size)
        if self._followers:
            self._tell(kept)
        if len(self._executions) > self._keep.executions:
            self._make_room()

    def note(self, execution_id: str, *entries: Entry, epoch: int = 0) -> None:
        self._settle()
        kept = self._held(execution_id, epoch)
        if kept.is_full:
            return
        bodies = kept.entries
        size, most = 0, self._max_bytes - kept.bytes
        for entry in entries:
            body = codec.encode_entry(entry)
            size += len(body)
            if size > most:
                kept.is_full = True
                size += len(_SPOILT) - len(body)
                bodies.append(_SPOILT)
                break
            bodies.append(body)
            if isinstance(entry, Given):
                kept.noted[entry.record.id] = entry.record
            else:
                kept.calls += codec.is_call(body)
        self._count(kept, size)
        if self._followers:
            self._tell(kept)

    async def flush(self, execution_id: str) -> None:
        self._settle()
        kept = self._executions.get(execution_id)
        if kept is None:
            raise base.unknown(execution_id)
        if kept.is_full:
            raise base.full(execution_id, self._max_bytes)

    def secure(self, execution_id: str, *entries: Entry, epoch: int = 0) -> Awaitable[None]:
        self.note(execution_id, *entries, epoch=epoch)
        return self.flush(execution_id)

    async def park(self, execution_id: str, *, epoch: int = 0, snapshot: Sealed | None = None) -> None:
        kept = self._held(execution_id, epoch)
        await self.flush(execution_id)
        if snapshot is not None and kept.bytes + len(snapshot.body) <= self._max_bytes:
            self._append(kept, codec.encode_entry(Parked(snapshot.round)))
            self._keep_snapshot(kept, snapshot.body)
        kept.state = "paused"
        self._tell(kept)

    async def accept(self, execution_id: str, entries: Sequence[Given], *, epoch: int = 0) -> None:
        self._settle()
        kept = self._held(execution_id, epoch)
        bodies = [codec.encode_entry(entry) for entry in entries]
        if kept.is_full or kept.bytes + sum(map(len, bodies)) > self._max_bytes:
            raise base.full(execution_id, self._max_bytes)
        for body in bodies:
            self._append(kept, body)
        kept.state = "running"
        self._tell(kept)

    async def takeover(self, execution_id: str) -> int:
        kept = self._held(execution_id, None)
        kept.epoch += 1
        return kept.epoch

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0, wait: bool = False) -> None:
        kept = self._held(execution_id, epoch)
        kept.state, kept.status, kept.seconds = "ended", outcome.status, outcome.seconds
        self._unsettled.append((kept, outcome))
        # The caller may change what it is given.
        if isinstance(outcome.value, (dict, list)):
            self._settle()
        elif len(self._unsettled) == 1:
            asyncio.get_running_loop().call_soon(self._settle)

    def _keep_outcome(self, kept: _Execution, outcome: Outcome) -> None:
        body = codec.encode_outcome(outcome, {} if kept.is_full else kept.noted)
        if len(body) > self._max_bytes:
            body = codec.encode_cut_down(outcome, self._max_bytes)
        kept.outcome = body
        kept.noted.clear()
        self._keep_snapshot(kept, None)
        self._count(kept, len(body))
        if self._followers:
            self._tell(kept)
        if self._bytes > self._keep.total_bytes:
            self._sweep(self._keep)

    async def sweep(self, keep: Retention | None = None) -> int:
        """Forget now what `keep`, or the ledger's own retention, does not allow; how many executions went."""
        self._settle()
        return self._sweep(keep or self._keep)

    async def delete(self, execution_id: str) -> bool:
        self._settle()
        is_known = execution_id in self._executions
        if is_known:
            self._forget(execution_id)
        return is_known

    async def load(self, execution_id: str) -> History | None:
        self._settle()
        kept = self._executions.get(execution_id)
        if kept is None:
            return None
        entries = codec.decode_entries(codec.join_entries(kept.entries))
        return History(
            start_record=kept.start_record,
            entries=tuple(entries),
            state=kept.state,
            epoch=kept.epoch,
            outcome=None if kept.outcome is None else codec.decode_outcome(kept.outcome, entries),
            is_full=kept.is_full,
        )

    async def snapshot(self, execution_id: str) -> bytes | None:
        kept = self._executions.get(execution_id)
        return None if kept is None else kept.snapshot

    def snapshot_seal(self) -> Seal | None:
        # Made anew each time: a cipher cannot be copied, a ledger can.
        return seal_with_bytes(self._snapshot_key)

    async def find(self, prefix: str, *, limit: int = 2) -> list[str]:
        self._settle()
        return sorted(key for key in self._executions if key.startswith(prefix))[:limit]

    async def list(self, *, limit: int = 50, before: float | None = None, tenant: str | None = None) -> list[Summary]:
        return [*await self.search(Filter(tenant=tenant, until=before), limit=limit)]

    async def story(self, execution_id: str, *, after: int = 0) -> Story | None:
        self._settle()
        kept = self._executions.get(execution_id)
        if kept is None:
            return None
        entries = codec.decode_entries(codec.join_entries(kept.entries[max(0, after) :]))
        outcome = None if kept.outcome is None else codec.decode_outcome(kept.outcome, ())
        place = len(kept.entries)
        return Story(state=kept.state, epoch=kept.epoch, place=place, entries=tuple(entries), outcome=outcome)

    async def follow(self, after: str | None = None) -> AsyncIterator[Change]:
        changes: asyncio.Queue[Change] = asyncio.Queue()
        self._followers.add(changes)
        try:
            # What happened while nobody followed was not kept.
            yield Change(cursor=str(self._changes), execution_id="")
            while True:
                yield await changes.get()
        finally:
            self._followers.discard(changes)

    def _tell(self, kept: _Execution) -> None:
        self._changes += 1
        change = Change(cursor=str(self._changes), execution_id=kept.start_record.execution_id)
        for changes in self._followers:
            changes.put_nowait(change)

    async def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        kept = self._executions.get(execution_id)
        if kept is None or (epoch, call_id) in kept.decisions:
            return False
        kept.decisions[epoch, call_id] = body
        self._tell(kept)
        return True

    async def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        kept = self._executions.get(execution_id)
        return None if kept is None else kept.decisions.get((epoch, call_id))

    def _rows(self, tenant: str | None) -> Iterator[Row]:
        self._settle()
        kept_here = [kept for kept in reversed(self._executions.values()) if tenant in (None, kept.start_record.tenant)]
        kept_here.sort(key=lambda kept: kept.start_record.began_at, reverse=True)
        for kept in kept_here:
            if kept.facts is None and kept.outcome is not None:
                entries = codec.decode_entries(codec.join_entries(kept.entries))
                kept.facts = facts_of(codec.decode_outcome(kept.outcome, entries))
            yield with_facts(_summary(kept), kept.facts)

    def learn(self, tenant: str, lesson: Lesson) -> None:
        self._lessons.add(tenant, lesson)

    async def learned(self, tenant: str) -> Sequence[Lesson]:
        return self._lessons.of(tenant)

    async def is_there(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing to let go of: it can be read as long as it is held."""

    def _settle(self) -> None:
        """Encode and count what has waited for it."""
        while self._unsettled:
            self._keep_outcome(*self._unsettled.pop(0))

    def _held(self, execution_id: str, epoch: int | None) -> _Execution:
        kept = self._executions.get(execution_id)
        if kept is None:
            raise base.unknown(execution_id)
        if epoch is not None and kept.epoch != epoch:
            raise base.fenced(execution_id)
        if kept.state == "ended":
            raise base.ended(execution_id)
        return kept

    def _keep_snapshot(self, kept: _Execution, body: bytes | None) -> None:
        self._count(kept, len(body or b"") - len(kept.snapshot or b""))
        kept.snapshot = body

    def _append(self, kept: _Execution, body: bytes) -> None:
        kept.entries.append(body)
        kept.calls += codec.is_call(body)
        self._count(kept, len(body))

    def _count(self, kept: _Execution, size: int) -> None:
        kept.bytes += size
        kept.touched_at = time.monotonic()
        self._bytes += size

    def _sweep(self, keep: Retention) -> int:
        now, on_clock = time.monotonic(), self.now()
        before = len(self._executions)
        for key, kept in tuple(self._executions.items()):
            age = keep.age_seconds if kept.state == "ended" else keep.open_seconds
            expires_at = kept.start_record.expires_at if kept.state != "ended" else 0.0
            if now - kept.touched_at >= age or (expires_at and on_clock >= expires_at + EXPIRED_SECONDS):
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
        ended = (key for key, kept in self._executions.items() if kept.state == "ended")
        oldest = next((key for key in ended if self._executions[key].start_record.tenant == most), None)
        if oldest is None:
            oldest = next((key for key, kept in self._executions.items() if kept.state == "ended"), None)
        if oldest is not None:
            self._forget(oldest)
        return oldest is not None

    def _forget(self, execution_id: str) -> None:
        gone = self._executions.pop(execution_id)
        self._bytes -= gone.bytes
        self._tenants[gone.start_record.tenant] -= 1
        if not self._tenants[gone.start_record.tenant]:
            del self._tenants[gone.start_record.tenant]


def _summary(kept: _Execution) -> Summary:
    begun = kept.start_record
    return Summary(
        execution_id=begun.execution_id,
        state=kept.state,
        status=kept.status,
        began_at=begun.began_at,
        seconds=kept.seconds,
        calls=kept.calls,
        first_line=first_line(begun.program.sent_text),
        session=begun.session,
        tenant=begun.tenant,
        door=begun.door,
    )
