"""Which executions of a SQLite ledger have to go, and the indexes that say it. Deleting them is the tables'."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from typing import Final

from toolfold.clocks import SteadyClock
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
DEADLINES_BY_TIME: Final = "CREATE INDEX IF NOT EXISTS deadlines_by_time ON deadlines (expires_at)"
"""Made when a file without it is opened. It needs no new format, for which the whole file would be copied: older
versions keep it up to date without knowing it."""
_SWEPT_AT_ONCE: Final = 200
_LOOKED_AT: Final = 10 * _SWEPT_AT_ONCE
"""Of one tenant's executions, oldest first, for some that have ended."""
_SAMPLE: Final = 128
_SAMPLE_ERROR: Final = 0.25
_NEWEST: Final = "SELECT bytes FROM executions INDEXED BY executions_by_word ORDER BY touched_at DESC LIMIT ?"


class Forgetting:
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

    def doomed(self, keep: Retention) -> list[int]:
        """Numbers of executions that `keep` does not allow, a few at a time."""
        return self._expired() or self._too_old(keep) or self._too_many(keep)

    def _expired(self) -> list[int]:
        doomed = []
        for number, status in self._past_deadlines():
            if status == "":
                doomed.append(number)
            else:  # what has ended, or is gone, has no deadline any more
                self._db.execute("DELETE FROM deadlines WHERE execution = ?", (number,))
        return doomed

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
        doomed: list[int] = []
        for number, its_bytes in self._oldest(sample, by_count=count > keep.executions):
            if count <= keep.executions and size <= keep.total_bytes:
                break
            doomed.append(number)
            count -= 1
            size -= its_bytes
        return doomed

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
        return [(tenant, its_bytes) for tenant, its_bytes, status in rows if status], count

    def _oldest(self, sample: list[tuple[str, int]], *, by_count: bool) -> list[tuple[int, int]]:
        """Executions that ended, of whoever has the most: one tenant's flood leaves the others' records."""
        shares: Counter[str] = Counter()
        for tenant, its_bytes in sample:
            shares[tenant] += 1 if by_count else its_bytes
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
