"""From the format of an older toolfold to today's: a copy of the file first, then all steps in one transaction."""

from __future__ import annotations

import functools
import logging
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from toolfold.errors import UsageError
from toolfold.ledger.changes import DECISIONS
from toolfold.ledger.forgetting import STEADY
from toolfold.ledger.lessons import LESSONS
from toolfold.ledger.listing import LISTING
from toolfold.ledger.tables import DEADLINES, OWNERS, SCHEMA

FORMAT: Final = 6
_CHANGES: Final = "CREATE TABLE changes (number INTEGER PRIMARY KEY, execution INTEGER NOT NULL)"
STEPS: Final[dict[int, tuple[str, ...]]] = {
    # Executions got deadlines. Some files of format 1 have the table already: it came before the format was raised.
    1: (DEADLINES,),
    # What tools were seen to return.
    2: (LESSONS,),
    # What can be followed, and what listings filter by.
    3: (_CHANGES, DECISIONS, *LISTING),
    # Followers read the times of executions instead. The table stays, without rows: a process of the older toolfold
    # that has the file open goes on writing to it.
    # Other indexes are left alone by a pause.
    4: ("DELETE FROM changes", *STEADY),
    # Whose process runs it.
    5: OWNERS,
}
"""What leads from each format to the next."""

_log = logging.getLogger("toolfold.ledger")


def migrate(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Bring the file to today's format; the old one stays beside it, named by its format."""
    if version == FORMAT:
        return
    copy = path.with_name(f"{path.name}.format{version}")
    _copy(connection, copy)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have been first.
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        for step in range(found, FORMAT):
            for statement in STEPS[step]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    _log.warning("the ledger was brought from format %d to %d; the old file is kept as %r", version, FORMAT, copy.name)


def check_shape(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that lacks what every statement counts on, in one line instead of at the first use.

    Raises:
        UsageError: A table or a column is missing.
    """
    found = _columns(connection)
    for table, columns in _expected().items():
        missing = sorted(columns - found.get(table, frozenset()))
        if missing:
            what = f"no table {table!r}" if table not in found else f"no column {missing[0]!r} in {table!r}"
            raise UsageError(
                f"ledger {str(path)!r} is not whole: there is {what}; put back a copy, or move it away to begin anew"
            )


def write_copy(connection: sqlite3.Connection, draft: Path) -> None:
    """The whole database as a new file, for this user only."""
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(draft)) as target:
        # A draft needs no journal, and one that was killed leaves none behind.
        target.execute("PRAGMA journal_mode = OFF").fetchone()
        connection.backup(target)


def _copy(connection: sqlite3.Connection, copy: Path) -> None:
    draft = copy.with_name(f"{copy.name}.{os.getpid()}")
    try:
        write_copy(connection, draft)
        with suppress(FileExistsError):
            os.link(draft, copy)
    finally:
        draft.unlink(missing_ok=True)


def _columns(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    ):
        found.setdefault(table, set()).add(column)
    return {table: frozenset(columns) for table, columns in found.items() if not table.startswith("sqlite_")}


@functools.cache
def _expected() -> dict[str, frozenset[str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(";".join((SCHEMA, DEADLINES, LESSONS, DECISIONS, *LISTING, *STEADY, *OWNERS)))
        return _columns(connection)
