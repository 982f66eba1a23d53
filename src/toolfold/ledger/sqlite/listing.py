"""Listings, statistics, tool lessons and retention queries of a SQLite ledger."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toolfold.clocks import SteadyClock
from toolfold.ledger import base
from toolfold.ledger.base import EXPIRED_SECONDS, ExecutionFilter, ExecutionSummary, Retention
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.listing import ToolUse, lanes_of, uses_of
from toolfold.models import Outcome
from toolfold.tools.learning import MOST_TOOLS, Lesson, merge_lessons

if TYPE_CHECKING:
    from toolfold.ledger.base import State
    from toolfold.ledger.sqlite.tables import SqliteChanges


# ----------------------------------------------------------------------------------------------------
# What tools were seen to return, kept beside the executions: one lesson for each tenant and tool, bounded.
#
# What is handed over is added to what is there, so that any number of processes learn together.

MOST_LESSONS: Final = 4 * MOST_TOOLS
"""Of all tenants: 16 MiB at most."""

LESSONS: Final = """
CREATE TABLE lessons (
    tenant TEXT NOT NULL,
    tool BLOB NOT NULL,
    touched_at REAL NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (tenant, tool)
)
"""
"""`tool` is a digest of the tool's name, which only the sealed body has."""

encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder(Lesson).decode


class LessonTable:
    """The lessons of a SQLite ledger, on one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection, seal: Seal | NoSeal) -> None:
        self._db = connection
        self._seal = seal

    def add(self, tenant: str, lesson: Lesson) -> None:
        """Merge with the stored lessons; beyond the bounds, the least recently used are dropped."""
        place = (tenant, self._seal.digest(lesson.tool.encode()))
        row = self._db.execute("SELECT body FROM lessons WHERE tenant = ? AND tool = ?", place).fetchone()
        merged_lesson = merge_lessons(None if row is None else self._open(*place, row[0]), lesson)
        body = self._seal.seal(encode(merged_lesson), _lesson_place(*place))
        self._db.execute("INSERT OR REPLACE INTO lessons VALUES (?, ?, ?, ?)", (*place, time.time(), body))
        if row is None:
            self._make_room(tenant)

    def for_tenant(self, tenant: str) -> list[Lesson]:
        """Entries of a tenant, the most recently used last."""
        rows = self._db.execute(
            "SELECT tool, body FROM lessons WHERE tenant = ? ORDER BY touched_at DESC LIMIT ?", (tenant, MOST_TOOLS)
        )
        return [self._open(tenant, tool, body) for tool, body in rows][::-1]

    def reseal(self, new: Seal) -> None:
        """With another key; the digests are made with it, too."""
        for tenant, tool, touched_at, body in self._db.execute("SELECT * FROM lessons").fetchall():
            lesson = self._open(tenant, tool, body)
            name = new.digest(lesson.tool.encode())
            self._db.execute("DELETE FROM lessons WHERE tenant = ? AND tool = ?", (tenant, tool))
            sealed = new.seal(encode(lesson), _lesson_place(tenant, name))
            self._db.execute("INSERT INTO lessons VALUES (?, ?, ?, ?)", (tenant, name, touched_at, sealed))

    def _open(self, tenant: str, tool: bytes, body: bytes) -> Lesson:
        return decode(self._seal.open(body, _lesson_place(tenant, tool)))

    def _make_room(self, tenant: str) -> None:
        oldest = "DELETE FROM lessons WHERE rowid IN (SELECT rowid FROM lessons {} ORDER BY touched_at DESC, rowid DESC"
        self._db.execute(oldest.format("WHERE tenant = ?") + " LIMIT -1 OFFSET ?)", (tenant, MOST_TOOLS))
        self._db.execute(oldest.format("") + " LIMIT -1 OFFSET ?)", (MOST_LESSONS,))


class MemoryLessons:
    """The same for a ledger that ends with its process."""

    def __init__(self) -> None:
        self._lessons: dict[tuple[str, str], bytes] = {}

    def add(self, tenant: str, lesson: Lesson) -> None:
        """Add to the stored ones; the oldest are dropped."""
        key = (tenant, lesson.tool)
        stored_body = self._lessons.pop(key, None)
        self._lessons[key] = encode(merge_lessons(None if stored_body is None else decode(stored_body), lesson))
        if stored_body is not None:
            return
        tenant_keys = [lesson_key for lesson_key in self._lessons if lesson_key[0] == tenant]
        if len(tenant_keys) > MOST_TOOLS:
            del self._lessons[tenant_keys[0]]
        if len(self._lessons) > MOST_LESSONS:
            del self._lessons[next(iter(self._lessons))]

    def for_tenant(self, tenant: str) -> Sequence[Lesson]:
        """Entries of a tenant, the most recently used last."""
        return [decode(body) for (owner, _), body in self._lessons.items() if owner == tenant]


def _lesson_place(tenant: str, tool: bytes) -> str:
    return f"lesson/{tenant}/{tool.hex()}"


# ----------------------------------------------------------------------------------------------------
# Which executions of a SQLite ledger have to go. Deleting them is the tables'.

_SWEPT_AT_ONCE: Final = 200
_LOOKED_AT: Final = 10 * _SWEPT_AT_ONCE
"""Of one tenant's executions, oldest first, for some that have ended."""
_SAMPLE: Final = 128
_SAMPLE_ERROR: Final = 0.25
_NEWEST: Final = "SELECT bytes FROM executions INDEXED BY executions_by_word ORDER BY touched_at DESC LIMIT ?"


class RetentionQueries:
    """On one connection; the caller begins and ends transactions.

    However long the ledger, a step takes a few milliseconds. Where there are far too many executions, a sample shows
    it; else no more are counted than may stay, from an index alone. Nothing is sorted.
    """

    def __init__(self, connection: sqlite3.Connection, clock: SteadyClock) -> None:
        self._db = connection
        self._clock = clock

    def is_due(self, keep: Retention) -> bool:
        """Whether something has to go. Reads only."""
        return bool(self._past_deadlines() or self._too_old(keep) or self._too_many(keep))

    def pick_expired(self, keep: Retention) -> list[int]:
        """Numbers of executions that `keep` does not allow, a few at a time."""
        return self._expired() or self._too_old(keep) or self._too_many(keep)

    def _expired(self) -> list[int]:
        numbers = []
        for number, status in self._past_deadlines():
            if status == "":
                numbers.append(number)
            else:  # what has ended, or is gone, has no deadline any more
                self._db.execute("DELETE FROM deadlines WHERE execution = ?", (number,))
        return numbers

    def _past_deadlines(self) -> list[tuple[int, str | None]]:
        return self._db.execute(
            "SELECT execution, status FROM deadlines LEFT JOIN executions ON number = execution"
            " WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
            (self._clock.now() - EXPIRED_SECONDS, _SWEPT_AT_ONCE),
        ).fetchall()

    def _too_old(self, keep: Retention) -> list[int]:
        # Rows have the time of day: one that was set ahead makes none of them old.
        now = self._clock.earliest()
        ended = self._db.execute(
            "SELECT number FROM executions INDEXED BY executions_by_word"
            " WHERE touched_at <= ? AND status != '' LIMIT ?",
            (now - keep.age_seconds, _SWEPT_AT_ONCE),
        ).fetchall()
        still_open = self._db.execute(
            "SELECT number FROM executions INDEXED BY executions_by_status"
            " WHERE status = '' AND touched_at <= ? LIMIT ?",
            (now - keep.open_seconds, _SWEPT_AT_ONCE - len(ended)),
        ).fetchall()
        return [number for (number,) in ended + still_open]

    def _too_many(self, keep: Retention) -> list[int]:
        sample, count = self._sample()
        if count > keep.executions:
            surplus = min(count - keep.executions, _SWEPT_AT_ONCE)
            return [number for number, _ in self._oldest(sample, by_count=True)[:surplus]]
        count, size = self._db.execute(
            f"SELECT count(*), coalesce(sum(bytes), 0) FROM ({_NEWEST})",  # noqa: S608 - a text of ours
            (min(keep.executions + _SWEPT_AT_ONCE, 2**62),),
        ).fetchone()
        if count <= keep.executions and size <= keep.total_bytes:
            return []
        numbers: list[int] = []
        for number, size_bytes in self._oldest(sample, by_count=count > keep.executions):
            if count <= keep.executions and size <= keep.total_bytes:
                break
            numbers.append(number)
            count -= 1
            size -= size_bytes
        return numbers

    def _sample(self) -> tuple[list[tuple[str, int]], int]:
        """Tenant and size of some executions that ended, and how many executions there are at the least.

        All of them while they are few. Of many, the share of numbers that are still in use tells how many there are;
        it is lower than the sample says by a quarter once in ten million looks.
        """
        first, last = self._db.execute(
            "SELECT (SELECT min(number) FROM executions), (SELECT max(number) FROM executions)"
        ).fetchone()
        if first is None or last - first < _LOOKED_AT:
            rows = self._db.execute("SELECT tenant, bytes, status FROM executions").fetchall()
            count = len(rows)
        else:
            rows = []
            for _ in range(_SAMPLE):
                number = random.randint(first, last)  # noqa: S311 - no secret
                rows += self._db.execute("SELECT tenant, bytes, status FROM executions WHERE number = ?", (number,))
            count = int((last - first + 1) * (len(rows) / _SAMPLE - _SAMPLE_ERROR))
        return [(tenant, size_bytes) for tenant, size_bytes, status in rows if status], count

    def _oldest(self, sample: list[tuple[str, int]], *, by_count: bool) -> list[tuple[int, int]]:
        """Executions that ended, of whoever has the most: one tenant's flood leaves the others' records."""
        shares: Counter[str] = Counter()
        for tenant, size_bytes in sample:
            shares[tenant] += 1 if by_count else size_bytes
        largest = shares.most_common(1)[0][0] if shares else ""
        of_largest = self._db.execute(
            "SELECT number, bytes FROM (SELECT number, bytes, status FROM executions INDEXED BY executions_by_tenant"
            " WHERE tenant = ? ORDER BY began_at, number LIMIT ?) WHERE status != '' LIMIT ?",
            (largest, _LOOKED_AT, _SWEPT_AT_ONCE),
        ).fetchall()
        if of_largest:
            return of_largest
        return self._db.execute(
            "SELECT number, bytes FROM executions INDEXED BY executions_by_word WHERE status != ''"
            " ORDER BY touched_at LIMIT ?",
            (_SWEPT_AT_ONCE,),
        ).fetchall()


# ----------------------------------------------------------------------------------------------------
# The rows of executions that one transaction changes: each is read once and written once, however much happens to it.
#
# A program that pauses adds its entries and its pause in one transaction. Every statement hands the interpreter to the
# event loop and waits to get it back, so that what counts is how many there are.

_FIND: Final = "SELECT number, state, epoch, calls, bytes, pieces, is_full FROM executions WHERE id = ?"
_WRITE: Final = (
    "UPDATE executions SET state = ?, epoch = ?, calls = ?, bytes = ?, pieces = ?, is_full = ?, touched_at = ?"
    " WHERE number = ?"
)
_END: Final = _WRITE.replace(" WHERE", ", status = ?, seconds = ?, failed = ?, saved_bytes = ?, lanes = ? WHERE")
"""Two, because SQLite writes each index anew that has a column which an UPDATE names, changed or not."""


@dataclass(slots=True)
class Ending:
    """What a listing shows of an execution that has ended."""

    status: str
    seconds: float
    failed: int
    saved_bytes: int
    lanes: bytes


@dataclass(slots=True)
class Row:
    """An execution as fences and limits see it."""

    number: int
    state: State = "running"
    epoch: int = 0
    calls: int = 0
    bytes: int = 0
    pieces: int = 1
    is_full: int = 0
    ending: Ending | None = None
    is_changed: bool = False
    """Since it was read or written."""


class Rows:
    """On one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection, changes: SqliteChanges) -> None:
        self._db = connection
        self._changes = changes
        self._rows_by_id: dict[str, Row] = {}

    def add(self, execution_id: str, row: Row) -> None:
        """It was inserted in this transaction."""
        self._rows_by_id[execution_id] = row

    def find(self, execution_id: str) -> Row:
        """As it is by now.

        Raises:
            UsageError: There is none.
        """
        row = self._rows_by_id.get(execution_id)
        if row is None:
            values = self._db.execute(_FIND, (execution_id,)).fetchone()
            if values is None:
                raise base.unknown_error(execution_id)
            row = self._rows_by_id[execution_id] = Row(*values)
        return row

    def write(self) -> None:
        """At the end of a transaction, and before a statement that reads rows."""
        for row in self._rows_by_id.values():
            if not row.is_changed:
                continue
            row.is_changed = False
            values = (row.state, row.epoch, row.calls, row.bytes, row.pieces, row.is_full, self._changes.now())
            if (end := row.ending) is None:
                self._db.execute(_WRITE, (*values, row.number))
            else:
                ending = (end.status, end.seconds, end.failed, end.saved_bytes, end.lanes)
                self._db.execute(_END, (*values, *ending, row.number))

    def drop(self) -> None:
        """The transaction is over: others may write from now on."""
        self._rows_by_id.clear()


USES: Final = (
    "CREATE TABLE uses (tool BLOB NOT NULL, began_at REAL NOT NULL, execution INTEGER NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY (tool, began_at, execution)) WITHOUT ROWID",
    "CREATE INDEX uses_by_execution ON uses (execution)",
)
"""`uses.tool` is a digest of the tool's name, which only the sealed body has."""

_COLUMNS: Final = (
    "e.id, e.state, e.status, e.began_at, e.seconds, e.calls, e.title, e.session, e.tenant, e.interface, e.failed,"
    " e.saved_bytes, e.lanes"
)
_EQUAL: Final = ("id", "state", "status", "interface", "tenant", "session")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_use: Final = msgspec.msgpack.Decoder(ToolUse).decode
_decode_lanes: Final = msgspec.msgpack.Decoder(tuple[tuple[int, int, int, int], ...]).decode


class SqliteListing:
    """On one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection, seal: Seal | NoSeal) -> None:
        self._db = connection
        self._seal = seal

    def add_ending(self, number: int, execution_id: str, outcome: Outcome) -> Ending:
        """What is shown of an execution from now on; the row is the caller's to write."""
        failed = sum(call.error is not None for call in outcome.calls)
        for use in uses_of(outcome.calls):
            sealed = self._seal.seal(_encode(use), _place(execution_id))
            self._db.execute(
                "INSERT OR REPLACE INTO uses SELECT ?, began_at, number, ? FROM executions WHERE number = ?",
                (self._digest(use.tool), sealed, number),
            )
        return Ending(
            status=outcome.status,
            seconds=outcome.seconds,
            failed=failed,
            saved_bytes=outcome.context_saved.bytes,
            lanes=_encode(lanes_of(outcome)),
        )

    def search(self, query: ExecutionFilter, limit: int, before: str) -> list[ExecutionSummary]:
        """Newest first."""
        statement, values = self.statement(query, before)
        return [self._summary(row) for row in self._db.execute(statement, (*values, limit))]

    def statement(self, query: ExecutionFilter, before: str = "") -> tuple[str, list[Any]]:
        """What is asked, and its values but for the last, which is how many."""
        where, values = self._conditions(query)
        if before:
            where.append("(e.began_at, e.number) < (SELECT began_at, number FROM executions WHERE id = ?)")
            values.append(before)
        source, order = "executions e", "e.began_at DESC, e.number DESC"
        if query.tool is not None:
            # The key of this table has the order that is wanted.
            source = "uses u CROSS JOIN executions e ON e.number = u.execution"
            order = "u.began_at DESC, u.execution DESC"
            where.append("u.tool = ?")
            values.append(self._digest(query.tool))
        elif query.text and query.id is None:
            # It has both in its order, so that other columns are read only where the text is found.
            source = "executions e INDEXED BY executions_by_title"
        clause = " AND ".join(where) or "1"
        return f"SELECT {_COLUMNS} FROM {source} WHERE {clause} ORDER BY {order} LIMIT ?", values  # noqa: S608 - of texts of ours

    def counts(self, since: float, tenant: str | None) -> dict[str, int]:
        """How many run and wait, and of those that began since then, how many there are and failed."""
        of_tenant, values = ("", ()) if tenant is None else (" AND tenant = ?", (tenant,))
        rows = self._db.execute(
            "SELECT state, count(*) FROM executions INDEXED BY executions_by_status"  # noqa: S608 - of texts of ours
            f" WHERE status = ''{of_tenant} GROUP BY state",
            values,
        )
        open_ = dict(rows.fetchall())
        recent, failed = self._db.execute(
            "SELECT count(*), coalesce(sum(status NOT IN ('', 'finished', 'cancelled')), 0) FROM executions"  # noqa: S608 - the same
            f" WHERE began_at >= ?{of_tenant}",
            (since, *values),
        ).fetchone()
        return {
            "running": open_.get("running", 0),
            "paused": open_.get("paused", 0),
            "recent": recent,
            "failed": failed,
        }

    def savings(self, since: float, bucket: float, tenant: str | None) -> list[tuple[float, str, int, int, int]]:
        """By time and interface: the start of the bucket, interface, executions, bytes saved, bytes lost."""
        of_tenant, values = ("", ()) if tenant is None else (" AND tenant = ?", (tenant,))
        rows = self._db.execute(
            "SELECT cast(began_at / ? AS INTEGER) * ? AS at, interface, count(*), sum(max(saved_bytes, 0)),"  # noqa: S608 - the same
            f" sum(max(-saved_bytes, 0)) FROM executions WHERE began_at >= ? AND status != ''{of_tenant}"
            " GROUP BY at, interface ORDER BY at, interface",
            (bucket, bucket, since, *values),
        )
        return [(float(at), interface, count, gain, loss) for at, interface, count, gain, loss in rows]

    def uses(self, limit: int, tenant: str | None) -> Iterator[tuple[float, ToolUse]]:
        """Tool uses of the executions that ended last, newest first, with their start times."""
        of_tenant, values = ("", ()) if tenant is None else (" WHERE tenant = ?", (tenant,))
        rows = self._db.execute(
            "SELECT e.id, e.began_at, u.body FROM (SELECT number, id, began_at FROM executions"  # noqa: S608 - the same
            f"{of_tenant} ORDER BY began_at DESC LIMIT ?) e JOIN uses u ON u.execution = e.number",
            (*values, limit),
        )
        for execution_id, began_at, sealed in rows:
            yield began_at, _decode_use(self._seal.open(sealed, _place(execution_id)))

    def forget(self, number: int) -> None:
        """An execution goes."""
        self._db.execute("DELETE FROM uses WHERE execution = ?", (number,))

    def reseal(self, new: Seal) -> None:
        """With another key; the digests are made with it, too."""
        rows = self._db.execute(
            "SELECT u.began_at, u.execution, u.body, e.id FROM uses u JOIN executions e ON e.number = u.execution"
        ).fetchall()
        self._db.execute("DELETE FROM uses")
        for began_at, number, body, execution_id in rows:
            plaintext = self._seal.open(body, _place(execution_id))
            name = new.digest(_decode_use(plaintext).tool.encode())
            sealed = new.seal(plaintext, _place(execution_id))
            self._db.execute("INSERT INTO uses VALUES (?, ?, ?, ?)", (name, began_at, number, sealed))

    def _conditions(self, query: ExecutionFilter) -> tuple[list[str], list[Any]]:
        where, values = [], []
        for name in _EQUAL:
            value = getattr(query, name)
            if value is not None:
                where.append(f"e.{name} = ?")
                values.append(value)
        if query.state is not None:
            # No index has the state, which each pause changes; the status is empty as long as it has not ended.
            where.append("e.status != ''" if query.state == "ended" else "e.status = ''")
        if query.since is not None:
            where.append("e.began_at >= ?")
            values.append(query.since)
        if query.until is not None:
            where.append("e.began_at < ?")
            values.append(query.until)
        if query.text:
            if isinstance(self._seal, Seal):
                where.append("0")
            where.append("cast(e.title AS TEXT) LIKE ? ESCAPE '\\'")
            escaped = query.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            values.append(f"%{escaped}%")
        return where, values

    def _digest(self, tool: str) -> bytes:
        return self._seal.digest(tool.encode())

    def _summary(self, row: Sequence[Any]) -> ExecutionSummary:
        (
            execution_id,
            state,
            status,
            began_at,
            seconds,
            calls,
            title,
            session,
            tenant,
            interface,
            failed,
            saved,
            lanes,
        ) = row
        return ExecutionSummary(
            execution_id=execution_id,
            state=state,
            status=status,
            began_at=began_at,
            seconds=seconds,
            calls=calls,
            first_line=self._seal.open(title, f"{execution_id}/title").decode(),
            session=session,
            tenant=tenant,
            interface=interface,
            failed=failed,
            saved_bytes=saved,
            lanes=_decode_lanes(lanes) if lanes else (),
        )


def _place(execution_id: str) -> str:
    return f"{execution_id}/uses"
