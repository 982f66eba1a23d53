"""Listings, statistics, tool lessons and retention queries of a SQLite ledger."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from toolfold.ledger.base import (
    EXPIRED_SECONDS,
    ExecutionFilter,
    ExecutionSummary,
    Retention,
    StartRecord,
    State,
)
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.execution_summaries import (
    ToolUse,
    decode_names,
    encode_names,
    filter_labels,
    labels_of,
    lanes_of,
    uses_of,
)
from toolfold.models import Outcome, RunNames
from toolfold.steady_clock import SteadyClock
from toolfold.tools.learned_replies import MOST_TOOLS, Lesson, merge_lessons

# ----------------------------------------------------------------------------------------------------
# Lessons on what tools return: one for each tenant and tool, merged with the stored one.

MOST_LESSONS: Final = 4 * MOST_TOOLS
"""Of all tenants: 16 MiB at most."""

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
        """Lessons of a tenant, the most recently used last."""
        rows = self._db.execute(
            "SELECT tool, body FROM lessons WHERE tenant = ? ORDER BY touched_at DESC LIMIT ?", (tenant, MOST_TOOLS)
        )
        return [self._open(tenant, tool, body) for tool, body in rows][::-1]

    def reseal(self, new: Seal) -> None:
        """Seal the rows with another key, which also makes the digests."""
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


@dataclass(slots=True)
class Row:
    """Execution as fences and limits see it."""

    number: int
    state: State = "running"
    epoch: int = 0
    calls: int = 0
    bytes: int = 0
    pieces: int = 1
    is_full: int = 0
    ending: tuple[Any, ...] | None = None
    """Values of the columns that are written with the end."""
    is_changed: bool = False
    """Since it was read or written."""


_FIELDS: Final = (
    "execution_id", "state", "status", "began_at", "seconds", "calls", "session", "tenant", "interface", "failed",
    "saved_bytes",
)  # fmt: skip
"""Of a summary, which are columns of the same name, but for the id."""
_COLUMNS: Final = ", ".join(("e.id", *(f"e.{name}" for name in _FIELDS[1:]), "e.names", "e.title", "e.lanes"))
_EQUAL: Final = ("id", "state", "status", "interface", "tenant", "session")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_use: Final = msgspec.msgpack.Decoder(ToolUse).decode
_decode_lanes: Final = msgspec.msgpack.Decoder(tuple[tuple[int, int, int, int], ...]).decode


class SqliteListing:
    """On one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection, seal: Seal | NoSeal) -> None:
        self._db = connection
        self._seal = seal

    def add_ending(self, row: Row, execution_id: str, outcome: Outcome) -> None:
        """Add what is shown of an execution that has ended; the row is the caller's to write."""
        for use in uses_of(outcome.calls):
            sealed = self._seal.seal(_encode(use), _place(execution_id))
            self._db.execute(
                "INSERT OR REPLACE INTO uses SELECT ?, began_at, number, ? FROM executions WHERE number = ?",
                (self._digest(use.tool), sealed, row.number),
            )
        failed = sum(call.error is not None for call in outcome.calls)
        saved_bytes, lanes = outcome.context_saved.bytes, _encode(lanes_of(outcome))
        row.ending = (outcome.status, outcome.seconds, failed, saved_bytes, lanes)

    def seal_names(self, start: StartRecord) -> bytes:
        """Names of a run for its row; a run without names costs nothing more."""
        body = encode_names(start)
        return self._seal.seal(body, _names_place(start.execution_id)) if body else b""

    def add_labels(self, number: int, start: StartRecord) -> None:
        for label in labels_of(start):
            self._db.execute("INSERT INTO labels VALUES (?, ?, ?)", (self._digest(label), start.began_at, number))

    def search(self, query: ExecutionFilter, limit: int, before: str) -> list[ExecutionSummary]:
        statement, values = self.statement(query, before)
        return [self._summary(row) for row in self._db.execute(statement, (*values, limit))]

    def word_matches(
        self, query: ExecutionFilter, before: str, table: str, expression: str, limit: int
    ) -> list[tuple[ExecutionSummary, int]]:
        """Executions that a table of the full-text index matches, by falling number, and their numbers."""
        conditions = {f"{table} MATCH ?": expression}
        if before:
            conditions["w.rowid < (SELECT number FROM executions WHERE id = ?)"] = before
        source = f"{table} w CROSS JOIN executions e ON e.number = w.rowid"
        # The tool is a mark in the expression.
        filters = replace(query, words=None, tool=None)
        statement, values = self.statement(filters, conditions=conditions, source=source, order="w.rowid DESC")
        rows = self._db.execute(statement.replace("SELECT ", "SELECT e.number, ", 1), (*values, limit)).fetchall()
        return [(self._summary(row[1:]), row[0]) for row in rows]

    # Any: values of conditions.
    def statement(
        self, query: ExecutionFilter, before: str = "", *, conditions: dict[str, Any] | None = None,
        source: str = "", order: str = "e.began_at DESC, e.number DESC",
    ) -> tuple[str, list[Any]]:  # fmt: skip
        """The query, and its values but for the limit; with a `source`, over what that joins with executions."""
        conditions = {} if conditions is None else conditions
        for name in _EQUAL:
            if (value := getattr(query, name)) is not None:
                conditions[f"e.{name} = ?"] = value
        if query.since is not None:
            conditions["e.began_at >= ?"] = query.since
        if query.until is not None:
            conditions["e.began_at < ?"] = query.until
        if query.text:
            escaped = query.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            conditions["cast(e.title AS TEXT) LIKE ? ESCAPE '\\'"] = f"%{escaped}%"
        if before:
            conditions["(e.began_at, e.number) < (SELECT began_at, number FROM executions WHERE id = ?)"] = before
        labels = filter_labels(query)
        if source:
            pass
        elif query.tool is not None:
            # The key of this table has the order that is wanted.
            source = "uses u CROSS JOIN executions e ON e.number = u.execution"
            order = "u.began_at DESC, u.execution DESC"
            conditions["u.tool = ?"] = self._digest(query.tool)
        elif labels:
            source = "labels l CROSS JOIN executions e ON e.number = l.execution"
            order = "l.began_at DESC, l.execution DESC"
            conditions["l.label = ?"] = self._digest(labels.pop())
        elif query.text and query.id is None:
            # It has both in its order, so that other columns are read only where the text is found.
            source = "executions e INDEXED BY executions_by_title"
        else:
            source = "executions e"
        where, values = [*conditions], [*conditions.values()]
        for label in labels:
            where.append(
                "EXISTS (SELECT 1 FROM labels WHERE label = ? AND began_at = e.began_at AND execution = e.number)"
            )
            values.append(self._digest(label))
        if query.state is not None:
            # No index has the state, which each pause changes; the status is empty as long as it has not ended.
            where.append("e.status != ''" if query.state == "ended" else "e.status = ''")
        if query.text and isinstance(self._seal, Seal):
            where.append("0")
        clause = " AND ".join(where) or "1"
        statement = f"SELECT {_COLUMNS} FROM {source} WHERE {clause} ORDER BY {order} LIMIT ?"  # noqa: S608 - of texts of ours
        return statement, values

    def counts(self, since: float, tenant: str | None) -> dict[str, int]:
        """How many run and wait, and of those that began since then, how many there are and failed."""
        open_rows = self._db.execute(
            "SELECT state, count(*) FROM executions INDEXED BY executions_by_status"  # noqa: S608 - of texts of ours
            f" WHERE status = ''{_of_tenant(tenant)} GROUP BY state",
            (tenant,),
        )
        counts = {"running": 0, "paused": 0, **dict(open_rows.fetchall())}
        counts["recent"], counts["failed"] = self._db.execute(
            "SELECT count(*), coalesce(sum(status NOT IN ('', 'finished', 'cancelled')), 0) FROM executions"  # noqa: S608 - the same
            f" WHERE began_at >= ?2{_of_tenant(tenant)}",
            (tenant, since),
        ).fetchone()
        return counts

    def savings(self, since: float, bucket: float, tenant: str | None) -> list[tuple[float, str, int, int, int]]:
        """By time and interface: the start of the bucket, interface, executions, bytes saved, bytes lost."""
        return self._db.execute(
            "SELECT cast(cast(began_at / ?3 AS INTEGER) * ?3 AS REAL) AS at, interface, count(*),"  # noqa: S608 - the same
            " sum(max(saved_bytes, 0)), sum(max(-saved_bytes, 0)) FROM executions"
            f" WHERE began_at >= ?2 AND status != ''{_of_tenant(tenant)} GROUP BY at, interface ORDER BY at, interface",
            (tenant, since, bucket),
        ).fetchall()

    def uses(self, limit: int, tenant: str | None) -> Iterator[tuple[float, ToolUse]]:
        """Tool uses of the executions that began last, newest first, with their start times."""
        rows = self._db.execute(
            "SELECT e.id, e.began_at, u.body FROM (SELECT number, id, began_at FROM executions"  # noqa: S608 - the same
            f" WHERE 1{_of_tenant(tenant)} ORDER BY began_at DESC LIMIT ?2) e JOIN uses u ON u.execution = e.number",
            (tenant, limit),
        )
        for execution_id, began_at, sealed in rows:
            yield began_at, _decode_use(self._seal.open(sealed, _place(execution_id)))

    def reseal(self, new: Seal) -> None:
        """Seal the rows with another key, which also makes the digests."""
        rows = self._db.execute(
            "SELECT u.began_at, u.execution, u.body, e.id FROM uses u JOIN executions e ON e.number = u.execution"
        ).fetchall()
        self._db.execute("DELETE FROM uses")
        for began_at, number, body, execution_id in rows:
            plaintext = self._seal.open(body, _place(execution_id))
            name = new.digest(_decode_use(plaintext).tool.encode())
            sealed = new.seal(plaintext, _place(execution_id))
            self._db.execute("INSERT INTO uses VALUES (?, ?, ?, ?)", (name, began_at, number, sealed))
        self._db.execute("DELETE FROM labels")
        named_rows = self._db.execute(
            "SELECT number, id, began_at, names FROM executions WHERE names != x''"
        ).fetchall()
        for number, execution_id, began_at, sealed in named_rows:
            body, place = self._seal.open(sealed, _names_place(execution_id)), _names_place(execution_id)
            self._db.execute("UPDATE executions SET names = ? WHERE number = ?", (new.seal(body, place), number))
            for label in labels_of(RunNames(**decode_names(body))):
                values = (new.digest(label.encode()), began_at, number)
                self._db.execute("INSERT INTO labels VALUES (?, ?, ?)", values)

    def _digest(self, tool: str) -> bytes:
        return self._seal.digest(tool.encode())

    def _summary(self, row: Sequence[Any]) -> ExecutionSummary:
        *values, names, title, lanes = row
        return ExecutionSummary(
            **dict(zip(_FIELDS, values, strict=True)),
            first_line=self._seal.open(title, f"{row[0]}/title").decode(),
            lanes=_decode_lanes(lanes) if lanes else (),
            **decode_names(self._seal.open(names, _names_place(row[0])) if names else b""),
        )


def _of_tenant(tenant: str | None) -> str:
    return f" AND {'?1 IS NULL' if tenant is None else 'tenant = ?1'}"


def _place(execution_id: str) -> str:
    return f"{execution_id}/uses"


def _names_place(execution_id: str) -> str:
    return f"{execution_id}/names"
