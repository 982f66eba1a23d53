"""The rows of executions that one transaction changes: each is read once and written once, however much happens to it.

A program that pauses adds its entries and its pause in one transaction. Every statement hands the interpreter to the
event loop and waits to get it back, so that what counts is how many there are.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolfold.ledger import refusals

if TYPE_CHECKING:
    from toolfold.ledger.changes import Changes
    from toolfold.ledger.record import State

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

    def __init__(self, connection: sqlite3.Connection, changes: Changes) -> None:
        self._db = connection
        self._changes = changes
        self._found: dict[str, Row] = {}

    def begun(self, execution_id: str, row: Row) -> None:
        """It was inserted in this transaction."""
        self._found[execution_id] = row

    def find(self, execution_id: str) -> Row:
        """As it is by now.

        Raises:
            UsageError: There is none.
        """
        row = self._found.get(execution_id)
        if row is None:
            found = self._db.execute(_FIND, (execution_id,)).fetchone()
            if found is None:
                raise refusals.unknown(execution_id)
            row = self._found[execution_id] = Row(*found)
        return row

    def write(self) -> None:
        """At the end of a transaction, and before a statement that reads rows."""
        for row in self._found.values():
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
        self._found.clear()
