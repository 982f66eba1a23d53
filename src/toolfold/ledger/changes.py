"""What was written, in the order in which it was committed: the part of a SQLite ledger that is followed.

A row is written in the transaction of what it tells of, and only one transaction writes at a time. So the numbers
rise in the order of the commits, and who has seen one has seen all before it. The latest row is never deleted, so that
no number is given twice; `AUTOINCREMENT` would keep a table for that, and half of what a row costs.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from toolfold.ledger.record import Change

CHANGES: Final = "CREATE TABLE changes (number INTEGER PRIMARY KEY, execution INTEGER NOT NULL)"
DECISIONS: Final = (
    "CREATE TABLE decisions (execution TEXT NOT NULL, epoch INTEGER NOT NULL, call INTEGER NOT NULL,"
    " body BLOB NOT NULL, PRIMARY KEY (execution, epoch, call)) WITHOUT ROWID"
)
"""What a person in another process said; see `decisions`."""
_KEPT: Final = 200_000
_AT_ONCE: Final = 1000


class ChangeTable:
    """On one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._changed: dict[int, None] = {}

    def add(self, execution: int) -> None:
        """Something was written about the execution with this number; `write` tells of it."""
        self._changed[execution] = None

    def write(self) -> None:
        """At the end of a transaction, once for each execution: who follows sees all of a transaction or none."""
        for execution in self._changed:
            self._db.execute("INSERT INTO changes (execution) VALUES (?)", (execution,))
        self._changed.clear()

    def drop(self) -> None:
        """The transaction was rolled back."""
        self._changed.clear()

    def last(self) -> str:
        """The cursor of the latest."""
        (number,) = self._db.execute("SELECT max(number) FROM changes").fetchone()
        return str(number or 0)

    def after(self, cursor: str) -> list[Change]:
        """The next ones, at most a thousand; the first has no id if some before it are gone."""
        number = int(cursor)
        found = self._db.execute(
            "SELECT c.number, e.id FROM changes c JOIN executions e ON e.number = c.execution"
            " WHERE c.number > ? ORDER BY c.number LIMIT ?",
            (number, _AT_ONCE),
        ).fetchall()
        changes = [Change(cursor=str(at), execution_id=execution_id) for at, execution_id in found]
        if found and found[0][0] > number + 1 and self._are_gone(number):
            changes.insert(0, Change(cursor=str(found[0][0] - 1), execution_id=""))
        return changes

    def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        """The first decision on a call, while its execution has not ended."""
        found = self._db.execute(
            "SELECT number FROM executions WHERE id = ? AND epoch = ? AND state != 'ended'", (execution_id, epoch)
        ).fetchone()
        if found is None:
            return False
        values = (execution_id, epoch, call_id, body)
        added = self._db.execute("INSERT OR IGNORE INTO decisions VALUES (?, ?, ?, ?)", values).rowcount
        self.add(found[0])
        return bool(added)

    def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        """What was decided."""
        found = self._db.execute(
            "SELECT body FROM decisions WHERE execution = ? AND epoch = ? AND call = ?", (execution_id, epoch, call_id)
        ).fetchone()
        return None if found is None else found[0]

    def forget(self, number: int) -> None:
        """An execution goes."""
        self._db.execute(
            "DELETE FROM decisions WHERE execution = (SELECT id FROM executions WHERE number = ?)", (number,)
        )

    def sweep(self) -> None:
        """Forget what nobody can have missed."""
        self._db.execute("DELETE FROM changes WHERE number <= (SELECT max(number) FROM changes) - ?", (_KEPT,))

    def _are_gone(self, number: int) -> bool:
        (first,) = self._db.execute("SELECT min(number) FROM changes").fetchone()
        return bool(first > number + 1)


def is_cursor(text: str) -> bool:
    """Whether it can be one of this ledger's."""
    return text.isascii() and text.isdigit() and len(text) <= 18
