"""What listings and statistics of a SQLite ledger read: columns and indexes of their own, and the queries on them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from toolfold.ledger.record import Filter, Summary
from toolfold.ledger.rows import Ending
from toolfold.ledger.seal import NoSeal, Seal
from toolfold.ledger.summing import Use, lanes_of, uses_of
from toolfold.models import Outcome

LISTING: Final = (
    "ALTER TABLE executions ADD COLUMN door TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE executions ADD COLUMN failed INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE executions ADD COLUMN saved_bytes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE executions ADD COLUMN lanes BLOB NOT NULL DEFAULT x''",
    "CREATE INDEX executions_in_state ON executions (state, began_at)",
    "CREATE INDEX executions_by_status ON executions (status, began_at)",
    "CREATE INDEX executions_by_door ON executions (door, began_at)",
    "CREATE INDEX executions_by_session ON executions (session, began_at)",
    "CREATE INDEX executions_by_title ON executions (began_at, title)",
    "CREATE INDEX executions_by_saving ON executions (began_at, door, saved_bytes, tenant, state, status)",
    "CREATE TABLE uses (tool BLOB NOT NULL, began_at REAL NOT NULL, execution INTEGER NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY (tool, began_at, execution)) WITHOUT ROWID",
    "CREATE INDEX uses_by_execution ON uses (execution)",
)
"""`uses.tool` is a digest of the tool's name, which only the sealed body has."""

_COLUMNS: Final = (
    "e.id, e.state, e.status, e.began_at, e.seconds, e.calls, e.title, e.session, e.tenant, e.door, e.failed,"
    " e.saved_bytes, e.lanes"
)
_EQUAL: Final = ("id", "state", "status", "door", "tenant", "session")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_use: Final = msgspec.msgpack.Decoder(Use).decode
_decode_lanes: Final = msgspec.msgpack.Decoder(tuple[tuple[int, int, int, int], ...]).decode


class Listing:
    """On one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection, seal: Seal | NoSeal) -> None:
        self._db = connection
        self._seal = seal

    def ended(self, number: int, execution_id: str, outcome: Outcome) -> Ending:
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

    def search(self, wanted: Filter, limit: int, before: str) -> list[Summary]:
        """Newest first."""
        statement, values = self.statement(wanted, before)
        return [self._summary(row) for row in self._db.execute(statement, (*values, limit))]

    def statement(self, wanted: Filter, before: str = "") -> tuple[str, list[Any]]:
        """What is asked, and its values but for the last, which is how many."""
        where, values = self._conditions(wanted)
        if before:
            where.append("(e.began_at, e.number) < (SELECT began_at, number FROM executions WHERE id = ?)")
            values.append(before)
        source, order = "executions e", "e.began_at DESC, e.number DESC"
        if wanted.tool is not None:
            # The key of this table has the order that is wanted.
            source = "uses u CROSS JOIN executions e ON e.number = u.execution"
            order = "u.began_at DESC, u.execution DESC"
            where.append("u.tool = ?")
            values.append(self._digest(wanted.tool))
        elif wanted.text and wanted.id is None:
            # It has both in its order, so that other columns are read only where the text is found.
            source = "executions e INDEXED BY executions_by_title"
        clause = " AND ".join(where) or "1"
        return f"SELECT {_COLUMNS} FROM {source} WHERE {clause} ORDER BY {order} LIMIT ?", values  # noqa: S608 - of texts of ours

    def counts(self, since: float, tenant: str | None) -> dict[str, int]:
        """How many run and wait, and of those that began since then, how many there are and failed."""
        of_tenant, values = ("", ()) if tenant is None else (" AND tenant = ?", (tenant,))
        found = self._db.execute(
            "SELECT state, count(*) FROM executions INDEXED BY executions_by_status"  # noqa: S608 - of texts of ours
            f" WHERE status = ''{of_tenant} GROUP BY state",
            values,
        )
        open_ = dict(found.fetchall())
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
        """By time and door: the start of the bucket, door, executions, bytes saved, bytes lost."""
        of_tenant, values = ("", ()) if tenant is None else (" AND tenant = ?", (tenant,))
        found = self._db.execute(
            "SELECT cast(began_at / ? AS INTEGER) * ? AS at, door, count(*), sum(max(saved_bytes, 0)),"  # noqa: S608 - the same
            f" sum(max(-saved_bytes, 0)) FROM executions WHERE began_at >= ? AND status != ''{of_tenant}"
            " GROUP BY at, door ORDER BY at, door",
            (bucket, bucket, since, *values),
        )
        return [(float(at), door, count, gain, loss) for at, door, count, gain, loss in found]

    def uses(self, limit: int, tenant: str | None) -> Iterator[tuple[float, Use]]:
        """Of the executions that ended last, newest first: when each began, and what it did with a tool."""
        of_tenant, values = ("", ()) if tenant is None else (" WHERE tenant = ?", (tenant,))
        found = self._db.execute(
            "SELECT e.id, e.began_at, u.body FROM (SELECT number, id, began_at FROM executions"  # noqa: S608 - the same
            f"{of_tenant} ORDER BY began_at DESC LIMIT ?) e JOIN uses u ON u.execution = e.number",
            (*values, limit),
        )
        for execution_id, began_at, sealed in found:
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
            opened = self._seal.open(body, _place(execution_id))
            name = new.digest(_decode_use(opened).tool.encode())
            sealed = new.seal(opened, _place(execution_id))
            self._db.execute("INSERT INTO uses VALUES (?, ?, ?, ?)", (name, began_at, number, sealed))

    def _conditions(self, wanted: Filter) -> tuple[list[str], list[Any]]:
        where, values = [], []
        for name in _EQUAL:
            value = getattr(wanted, name)
            if value is not None:
                where.append(f"e.{name} = ?")
                values.append(value)
        if wanted.state is not None:
            # No index has the state, which each pause changes; the status is empty as long as it has not ended.
            where.append("e.status != ''" if wanted.state == "ended" else "e.status = ''")
        if wanted.since is not None:
            where.append("e.began_at >= ?")
            values.append(wanted.since)
        if wanted.until is not None:
            where.append("e.began_at < ?")
            values.append(wanted.until)
        if wanted.text:
            if isinstance(self._seal, Seal):
                where.append("0")
            where.append("cast(e.title AS TEXT) LIKE ? ESCAPE '\\'")
            escaped = wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            values.append(f"%{escaped}%")
        return where, values

    def _digest(self, tool: str) -> bytes:
        return self._seal.digest(tool.encode())

    def _summary(self, row: Sequence[Any]) -> Summary:
        execution_id, state, status, began_at, seconds, calls, title, session, tenant, door, failed, saved, lanes = row
        return Summary(
            execution_id=execution_id,
            state=state,
            status=status,
            began_at=began_at,
            seconds=seconds,
            calls=calls,
            first_line=self._seal.open(title, f"{execution_id}/title").decode(),
            session=session,
            tenant=tenant,
            door=door,
            failed=failed,
            saved_bytes=saved,
            lanes=_decode_lanes(lanes) if lanes else (),
        )


def _place(execution_id: str) -> str:
    return f"{execution_id}/uses"
