"""Change feed of a SQLite ledger: executions in the order of their commits, and decisions on calls.

Nothing is written for it. The row of an execution has always had the time at which it was last written, in an index;
each transaction gives later times than all before it, so they rise in the order of the commits. Who has seen
one has seen all before it; of an execution that was written several times in between, only the last.
"""

from __future__ import annotations

import math
import re
import sqlite3
import time
from typing import Final

from toolfold.ledger.base import LedgerChange

DECISIONS: Final = (
    "CREATE TABLE decisions (execution TEXT NOT NULL, epoch INTEGER NOT NULL, call INTEGER NOT NULL,"
    " body BLOB NOT NULL, PRIMARY KEY (execution, epoch, call)) WITHOUT ROWID"
)
"""What a person in another process said; see `decisions`."""
_AT_ONCE: Final = 1000
_AHEAD_SECONDS: Final = 3600.0
"""Of the clock, at most: it may be set back, and what was written before counts on. Times further ahead come from a
clock that was wrong; they are not built upon, or no execution would become old enough to be forgotten."""
_FINE_SECONDS: Final = 1e-6
_JITTER_SECONDS: Final = 2e-6
"""Between two clocks that are read one after the other; much less than a commit takes."""
_TRUSTED_SECONDS: Final = 1.0
_CURSOR: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)

_LAST: Final = "SELECT max(touched_at) FROM executions WHERE touched_at <= ?"
_AFTER: Final = (
    "SELECT touched_at, id FROM executions WHERE touched_at > ? AND touched_at <= ? ORDER BY touched_at LIMIT ?"
)


class SqliteChanges:
    """On one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._latest = 0.0
        """No time that was given here is later."""
        self._lead = math.inf
        """Of the time of day over the clock that nobody can set, when all times that were given lay in the past."""
        self._trusted_until = 0.0
        """By the other clock; until then nobody sets the one of the day to something else and back."""
        self._is_new = True
        """The transaction has not written yet, and others may have written before it."""

    def begin(self) -> None:
        """A transaction that writes has begun."""
        self._is_new = True

    def now(self) -> float:
        """When an execution is written: later than all that was committed, and than all in this transaction."""
        if self._is_new:
            self._is_new = False
            now, passed = time.time(), time.monotonic()
            is_as_before = -_JITTER_SECONDS < now - passed - self._lead < _JITTER_SECONDS
            # Then nobody has set the clock, and whatever others wrote has an earlier time: a commit takes longer than
            # a clock needs to go on. To look each time would be two hundredths of what a call costs.
            if is_as_before and passed < self._trusted_until and now > self._latest:
                self._trusted_until = passed + _TRUSTED_SECONDS
                self._latest = now
                return now
            self._look()
        self._latest = math.nextafter(self._latest, math.inf)
        return self._latest

    def last(self) -> str:
        """The cursor of the latest."""
        return repr(self._last(time.time()))

    def after(self, cursor: str) -> list[LedgerChange]:
        """The next ones, at most a thousand; the first has no id if some before it may be missing."""
        position, now = float(cursor), time.time()
        changes: list[LedgerChange] = []
        if position > now and position > (last := self._last(now)):
            # The clock was set back, and nothing holds the place of the cursor: what comes next may lie before it.
            position = last
            changes.append(LedgerChange(cursor=repr(position), execution_id=""))
        rows = self._db.execute(_AFTER, (position, now + _AHEAD_SECONDS, _AT_ONCE))
        changes += (LedgerChange(cursor=repr(at), execution_id=execution_id) for at, execution_id in rows)
        return changes

    def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        """The first decision on a call, while its execution has not ended."""
        row = self._db.execute(
            "SELECT number FROM executions WHERE id = ? AND epoch = ? AND state != 'ended'", (execution_id, epoch)
        ).fetchone()
        if row is None:
            return False
        values = (execution_id, epoch, call_id, body)
        if not self._db.execute("INSERT OR IGNORE INTO decisions VALUES (?, ?, ?, ?)", values).rowcount:
            return False
        self._db.execute("UPDATE executions SET touched_at = ? WHERE number = ?", (self.now(), row[0]))
        return True

    def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        """What was decided."""
        row = self._db.execute(
            "SELECT body FROM decisions WHERE execution = ? AND epoch = ? AND call = ?", (execution_id, epoch, call_id)
        ).fetchone()
        return None if row is None else row[0]

    def forget(self, number: int) -> None:
        """An execution goes."""
        self._db.execute(
            "DELETE FROM decisions WHERE execution = (SELECT id FROM executions WHERE number = ?)", (number,)
        )

    def _look(self) -> None:
        now, passed, lead = _clocks()
        latest = self._latest if self._latest <= now + _AHEAD_SECONDS else 0.0
        last = max(latest, self._last(now))
        # While the clock lags behind, others give times that it does not know.
        self._lead = lead if last < now else math.inf
        self._trusted_until = passed + _TRUSTED_SECONDS
        self._latest = max(last, now)

    def _last(self, now: float) -> float:
        (at,) = self._db.execute(_LAST, (now + _AHEAD_SECONDS,)).fetchone()
        return at or 0.0


def _clocks() -> tuple[float, float, float]:
    """The time of day, the other clock, and the lead, infinite where it cannot be told: the thread was held up."""
    before, now, after = time.monotonic(), time.time(), time.monotonic()
    is_exact = after - before < _JITTER_SECONDS and time.get_clock_info("time").resolution <= _FINE_SECONDS
    return now, after, now - after if is_exact else math.inf


def is_cursor(text: str) -> bool:
    """Whether it can be one of this ledger's."""
    return _CURSOR.fullmatch(text) is not None
