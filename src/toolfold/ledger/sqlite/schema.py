"""Schema of a SQLite ledger: opens its file, creates and checks the tables, and migrates the format before."""

from __future__ import annotations

import functools
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final

from toolfold.errors import UsageError
from toolfold.ledger.encryption import SALT_BYTES, NoSeal, Seal, seal_with
from toolfold.ledger.sqlite.tables import SCHEMA, transaction
from toolfold.steady_clock import SteadyClock, boot_id

_APPLICATION: Final = 0x746F666C  # "tofl"
BUSY_SECONDS: Final = 30.0
_STORE_LEAD: Final = (
    "INSERT INTO facts VALUES ('clock', ?1 || ' ' || ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    " WHERE value NOT LIKE ?1 || ' %'"
)
"""By the first process after a start of the machine."""


def connect(path: Path, key: bytes | str | None) -> tuple[sqlite3.Connection, sqlite3.Connection, Seal | NoSeal]:
    """The connection that writes, one that reads, and the seal that fits the file.

    Two connections, so that a long read does not hold up the writes.

    Raises:
        UsageError: The file cannot be used, with the reason.
    """
    _make(path)
    with ExitStack() as stack:
        try:
            writer = _open(path, stack)
            _prepare(writer, path)
            seal = _seal(writer, path, key)
            reader = _open(path, stack)
            reader.execute("PRAGMA query_only = 1")
        except sqlite3.Error as error:
            raise unusable(path, error) from error
        stack.pop_all()
    return writer, reader, seal


def shared_lead(connection: sqlite3.Connection) -> float:
    """The lead of the clock that all who use the file share until the machine starts again; see `SteadyClock`."""
    boot, lead = boot_id(), SteadyClock().lead
    stored_lead = _read_lead(connection, boot) if boot else lead
    if stored_lead is None:
        with suppress(sqlite3.Error):  # a full disk, perhaps: the next process sets it
            connection.execute(_STORE_LEAD, (boot, repr(lead)))
            stored_lead = _read_lead(connection, boot)
    return lead if stored_lead is None else stored_lead


def _read_lead(connection: sqlite3.Connection, boot: str) -> float | None:
    row = connection.execute("SELECT value FROM facts WHERE name = 'clock'").fetchone()
    stored_boot, _, lead = row[0].partition(" ") if row is not None else ("", "", "")
    return float(lead) if stored_boot == boot else None


def open_exclusive(path: Path) -> sqlite3.Connection:
    """The only connection to a file; SQLite's "database is locked" where another process has it open."""
    with ExitStack() as stack:
        raw_connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
        connection = stack.enter_context(closing(raw_connection))
        # First of all: in WAL mode it counts from the first look at the tables.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        _prepare(connection, path)
        stack.pop_all()
    return connection


def unusable(path: Path, error: sqlite3.Error) -> UsageError:
    return UsageError(f"ledger {str(path)!r} cannot be used: {_reason(error)}")


def check_key(path: Path, facts: Mapping[str, str], seal: Seal) -> None:
    """Raise a `UsageError` if the file was sealed with another key."""
    if facts["key_id"] != seal.key_id:
        raise UsageError(
            f"wrong key for ledger {str(path)!r}: it was sealed with key {facts['key_id']}, this is {seal.key_id}"
        )


def _make(path: Path) -> None:
    if "\0" in str(path):
        raise UsageError(f"ledger {str(path)!r} cannot be opened: its path has a null character; name another")
    try:
        if path.is_file() and os.access(path, os.R_OK | os.W_OK):
            # Not opened here: closing it would end the locks of this process's other connections to it.
            return
        # Before SQLite does it, for the permissions: the files beside it take them over.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except FileNotFoundError as error:
        raise UsageError(f"no folder {str(path.parent)!r} for the ledger; make it, or name another") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror or "unknown reason").lower() if isinstance(error, OSError) else str(error)
        raise UsageError(f"ledger {str(path)!r} cannot be opened: {reason}; name another file, or 'memory'") from error


def _open(path: Path, stack: ExitStack) -> sqlite3.Connection:
    # Its users take care of threads: the writer is one thread, readers hold a lock.
    raw_connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection = stack.enter_context(closing(raw_connection))
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # In one read: another process may be laying it out right now.
    application, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if (tables or version) and not (application == _APPLICATION and version):
        raise UsageError(f"{str(path)!r} is a database, but no ledger of toolfold's; name another file")
    if version > FORMAT:
        raise UsageError(
            f"ledger {str(path)!r} was made by a newer toolfold (format {version}, this one reads {FORMAT}); "
            "update toolfold, or name another file"
        )
    if 0 < version < _OLDEST_FORMAT:
        raise UsageError(
            f"ledger {str(path)!r} has format {version}, and formats below {_OLDEST_FORMAT} are not read; "
            "move it away to begin a new one, or name another file"
        )
    if not version:
        # Only a file without tables takes this; the space of forgotten executions then goes back to the disk.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _use_wal(connection)
    if version:
        migrate(connection, path, version)
    else:
        _lay_out(connection)
    check_shape(connection, path)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode; two processes that do this at once are not made to wait by SQLite itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _lay_out(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        # Asked again: another process may have been first.
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")


def _seal(connection: sqlite3.Connection, path: Path, key: bytes | str | None) -> Seal | NoSeal:
    facts = _facts(connection)
    if key is None:
        if "key_id" in facts:
            raise UsageError(f"ledger {str(path)!r} is sealed; give its key")
        return NoSeal()
    if "key_id" not in facts:
        salt = secrets.token_bytes(SALT_BYTES)
        seal = seal_with(key, salt)
        with transaction(connection):
            # Asked again: another process may have sealed it, or begun to write without a seal.
            facts = _facts(connection)
            if facts.keys() <= {"clock"} and not connection.execute("SELECT count(*) FROM executions").fetchone()[0]:
                values = [("key_id", seal.key_id), ("salt", salt.hex())]
                connection.executemany("INSERT INTO facts VALUES (?, ?)", values)
                return seal
        if "key_id" not in facts:
            raise UsageError(f"ledger {str(path)!r} has records that are not sealed; name a new file to use a key")
    seal = seal_with(key, bytes.fromhex(facts["salt"]))
    check_key(path, facts, seal)
    return seal


def _facts(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM facts").fetchall())


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return f"it is damaged or no ledger ({text}); move it away to begin a new one"
    if "readonly" in text:
        return "it cannot be written to; check the permissions of the file and its folder"
    if "unable to open" in text:
        return "no file can be made in its folder; check the folder's permissions"
    return text


# ----------------------------------------------------------------------------------------------------
# From the format before to today's: a copy of the file first, then all steps in one transaction.

FORMAT: Final = 8
_OLDEST_FORMAT: Final = 5
_STEPS: Final[dict[int, tuple[str, ...]]] = {
    5: (
        # Whose process runs it.
        "ALTER TABLE executions ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    ),
    6: (
        "ALTER TABLE executions RENAME COLUMN door TO interface",
        "DROP INDEX executions_by_door",
        "CREATE INDEX executions_by_interface ON executions (interface, began_at)",
        # Some files have this index, and some have this table, without rows.
        "CREATE INDEX IF NOT EXISTS deadlines_by_time ON deadlines (expires_at)",
        "DROP TABLE IF EXISTS changes",
    ),
    7: (
        "ALTER TABLE executions ADD COLUMN names BLOB NOT NULL DEFAULT x''",
        "CREATE TABLE labels (label BLOB NOT NULL, began_at REAL NOT NULL, execution INTEGER NOT NULL,"
        " PRIMARY KEY (label, began_at, execution)) WITHOUT ROWID",
        "CREATE INDEX labels_by_execution ON labels (execution)",
    ),
}
"""What leads from each format to the next."""

_log = logging.getLogger("toolfold.ledger")


def migrate(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Bring the file to today's format; the old one stays beside it, named by its format."""
    if version == FORMAT:
        return
    copy = path.with_name(f"{path.name}.format{version}")
    write_copy(connection, copy, copy.with_name(f"{copy.name}.{os.getpid()}"), overwrite=False)
    with transaction(connection):
        # Asked again: another process may have been first.
        (current_version,) = connection.execute("PRAGMA user_version").fetchone()
        for step in range(current_version, FORMAT):
            for statement in _STEPS[step]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    _log.warning("the ledger was migrated from format %d to %d; the old file is kept as %r", version, FORMAT, copy.name)


def check_shape(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that lacks what every statement counts on, in one line instead of at the first use.

    Raises:
        UsageError: A table or a column is missing.
    """
    columns_by_table = _columns(connection)
    for table, columns in _expected().items():
        missing = sorted(columns - columns_by_table.get(table, frozenset()))
        if missing:
            defect = (
                f"no table {table!r}" if table not in columns_by_table else f"no column {missing[0]!r} in {table!r}"
            )
            raise UsageError(
                f"ledger {str(path)!r} is not whole: there is {defect}; put back a copy, or move it away to begin anew"
            )


def write_copy(connection: sqlite3.Connection, copy: Path, draft: Path, *, overwrite: bool) -> None:
    """Copy the database to a new file, for this user only, whole or not at all."""
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(draft)) as target:
            # A draft needs no journal, and one that was killed leaves none behind.
            target.execute("PRAGMA journal_mode = OFF").fetchone()
            connection.backup(target)
        if overwrite:
            os.replace(draft, copy)
        else:
            with suppress(FileExistsError):
                os.link(draft, copy)
    finally:
        draft.unlink(missing_ok=True)


def _columns(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    columns_by_table: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    ):
        columns_by_table.setdefault(table, set()).add(column)
    return {table: frozenset(columns) for table, columns in columns_by_table.items() if not table.startswith("sqlite_")}


@functools.cache
def _expected() -> dict[str, frozenset[str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return _columns(connection)
