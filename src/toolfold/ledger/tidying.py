"""Retention of a SQLite ledger, kept by its writing thread in small steps between two commits."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from typing import Final

from toolfold.ledger.connect import BUSY_SECONDS
from toolfold.ledger.retention import Retention, Schedule
from toolfold.ledger.tables import Tables

_CLOSING_SECONDS: Final = 0.05
"""After so long a step stops where the ledger is being closed; what it did is still committed, which takes as long as
the disk does. Not less: commands that take a moment must get something done, too."""
_INSTRUCTIONS: Final = 10_000
"""Of SQLite's machine, between two looks at the clock: about a millisecond."""

_log = logging.getLogger("toolfold.ledger")


class Tidying:
    """On the connection that writes, which is in no transaction between two steps."""

    def __init__(
        self, connection: sqlite3.Connection, tables: Tables, keep: Retention, is_closing: Callable[[], bool]
    ) -> None:
        self._db = connection
        self._tables = tables
        self._keep = keep
        self._is_closing = is_closing
        self._schedule = Schedule(keep)
        self._closing_until = 0.0
        self.is_over = False
        """There was more than may stay after the last step; the next round has another."""

    def step(self, acts: int) -> None:
        """Forget some of what is too old, if it is time, in a transaction of its own.

        One step in each round of the thread: in between, this and other processes can write.
        """
        size, self._tables.written_bytes = self._tables.written_bytes, 0
        self._schedule.wrote(size, acts)
        if not self._schedule.is_due():
            return
        self._closing_until = time.monotonic() + _CLOSING_SECONDS
        self._db.set_progress_handler(self._must_end, _INSTRUCTIONS)
        self._db.execute("PRAGMA busy_timeout = 0")  # another process that writes must not hold up who closes
        try:
            self.is_over = (self.is_over or self._tables.is_over(self._keep)) and self._sweep() > 0
            if not self._must_end():
                # As a script: `execute` stops at the first page that is given back.
                self._db.executescript("PRAGMA incremental_vacuum(1000)")
        except sqlite3.Error as error:
            self.is_over = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY
            if not (self.is_over or self._is_closing()):
                _log.warning("old executions were not forgotten: %s", error)
        finally:
            self._db.set_progress_handler(None, 0)
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
        if self.is_over:
            self._schedule.hasten()

    def _sweep(self) -> int:
        self._db.execute("BEGIN IMMEDIATE")
        swept = self._tables.sweep(self._keep, self._must_end)
        self._db.set_progress_handler(None, 0)  # what went is committed
        self._db.execute("COMMIT")
        return swept

    def _must_end(self) -> bool:
        return self._is_closing() and time.monotonic() > self._closing_until
