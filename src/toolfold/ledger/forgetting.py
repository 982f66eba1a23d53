"""Which executions of a SQLite ledger have to go, and the indexes that say it. Deleting them is the tables'."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

from toolfold.ledger.retention import EXPIRED_SECONDS, Retention

STEADY: Final = (
    "DROP INDEX executions_by_state",
    "DROP INDEX executions_in_state",
    "DROP INDEX executions_by_saving",
    "CREATE INDEX executions_by_word ON executions (touched_at, status, bytes)",
    "CREATE INDEX executions_by_saving ON executions (began_at, door, saved_bytes, tenant, status)",
)
"""Every index with a column that each pause and each batch of entries changes is a page more in each commit: only one
is left, by the time of the last word, which followers read, too. An execution has no status until it has ended, and
that is all that the others need of its state."""
_SWEPT_AT_ONCE: Final = 200


class Forgetting:
    """On one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def doomed(self, keep: Retention) -> list[int]:
        """Numbers of executions that `keep` does not allow, a few at a time."""
        return self._expired() or self._too_old(keep) or self._too_many(keep)

    def _expired(self) -> list[int]:
        latest = time.time() - EXPIRED_SECONDS
        found = self._db.execute(
            "SELECT number FROM deadlines JOIN executions ON number = execution"
            " WHERE expires_at <= ? AND status = '' LIMIT ?",
            (latest, _SWEPT_AT_ONCE),
        )
        doomed = [number for (number,) in found]
        if not doomed:  # what has ended has no deadline any more
            self._db.execute("DELETE FROM deadlines WHERE expires_at <= ?", (latest,))
        return doomed

    def _too_old(self, keep: Retention) -> list[int]:
        now = time.time()
        found = self._db.execute(
            "SELECT number FROM executions INDEXED BY executions_by_word"
            " WHERE touched_at <= max(?1, ?2) AND touched_at <= iif(status = '', ?2, ?1) LIMIT ?3",
            (now - keep.age_seconds, now - keep.open_seconds, _SWEPT_AT_ONCE),
        )
        return [number for (number,) in found]

    def _too_many(self, keep: Retention) -> list[int]:
        count, size = self._db.execute(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM executions INDEXED BY executions_by_word"
        ).fetchone()
        if count <= keep.executions and size <= keep.total_bytes:
            return []
        # Whoever has the most makes room: one tenant's flood leaves the others' records.
        share = "count(*)" if count > keep.executions else "sum(bytes)"
        largest = self._db.execute(
            f"SELECT tenant FROM executions WHERE status != '' GROUP BY tenant ORDER BY {share} DESC LIMIT 1"  # noqa: S608 - of the two above
        ).fetchone()
        doomed: list[int] = []
        for number, its_bytes in self._db.execute(
            "SELECT number, bytes FROM executions WHERE status != '' AND tenant = ?"
            " ORDER BY touched_at, number LIMIT ?",
            (largest[0] if largest else "", _SWEPT_AT_ONCE),
        ):
            if count <= keep.executions and size <= keep.total_bytes:
                break
            doomed.append(number)
            count -= 1
            size -= its_bytes
        return doomed
