"""Key change of a sealed SQLite ledger: a copy of the file first, then every body in one transaction.

Killed at any moment, the file is whole with the old key or whole with the new one; a second try ends the work.
"""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolfold.errors import UsageError
from toolfold.ledger import codec
from toolfold.ledger.base import MAX_EXECUTION_BYTES
from toolfold.ledger.encryption import SALT_BYTES, Seal, relock, seal_for_snapshots, seal_with
from toolfold.ledger.sqlite.listing import LessonTable, SqliteListing
from toolfold.ledger.sqlite.schema import check_key, open_exclusive, unusable, write_copy
from toolfold.ledger.sqlite.store import lock_for_server
from toolfold.ledger.sqlite.tables import SNAPSHOT, Tables, transaction
from toolfold.ledger.sqlite.write_ahead_log import recover_logs
from toolfold.steady_clock import SteadyClock

_NEXT_STEP: Final = "stop that one first, then run this again"


@dataclass(frozen=True, slots=True, kw_only=True)
class RekeyResult:
    """Result of a key change."""

    executions: int
    copy: str
    """The name of the file with the old key, beside the new one; empty where there was nothing to do."""


def rekey(path: Path, key: bytes | str | None, new_key: bytes | str) -> RekeyResult:
    """Seal everything in the ledger with `new_key`; nobody else may have it open.

    Raises:
        UsageError: It cannot be done, with the reason; the ledger is as it was.
    """
    if not path.is_file():
        raise UsageError(f"no ledger {str(path)!r}; check the path")
    try:
        # The handle has the lock until it is closed.
        with open(lock_for_server(path, _NEXT_STEP), "rb"), closing(open_exclusive(path)) as connection:
            return _rekey(connection, path, key, new_key)
    except sqlite3.Error as error:
        if "locked" in str(error):
            # It would go on to write with the old key, and nobody could read that.
            raise UsageError(f"ledger {str(path)!r} is in use by another process; {_NEXT_STEP}") from error
        raise unusable(path, error) from error
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(f"ledger {str(path)!r} cannot be rekeyed: {reason}; check the folder and its disk") from error


def _rekey(connection: sqlite3.Connection, path: Path, key: bytes | str | None, new_key: bytes | str) -> RekeyResult:
    facts = dict(connection.execute("SELECT name, value FROM facts"))
    if "key_id" not in facts:
        raise UsageError(
            f"ledger {str(path)!r} is not sealed, so it has no key to change; name a new file to use a key"
        )
    if not key:
        raise UsageError(f"ledger {str(path)!r} is sealed; give its key")
    salt = bytes.fromhex(facts["salt"])
    old, same_salt = seal_with(key, salt), seal_with(new_key, salt)
    if old.key_id == same_salt.key_id:
        raise UsageError(f"the new key of ledger {str(path)!r} is its old one; give another in --new-key-env")
    if facts["key_id"] == same_salt.key_id:
        return RekeyResult(executions=0, copy="")
    check_key(path, facts, old)
    recover_logs(path, Tables(connection, old, MAX_EXECUTION_BYTES, SteadyClock()), old)
    copy = path.with_name(f"{path.name}.key-{old.key_id}")
    # One name for each try, so that a killed one leaves nothing for good: nobody else is here.
    draft = copy.with_name(f"{copy.name}.part")
    draft.unlink(missing_ok=True)
    # Over an older copy with the same key: this one has everything that it had at the time.
    write_copy(connection, copy, draft, overwrite=True)
    new_salt = secrets.token_bytes(SALT_BYTES)
    new = seal_with(new_key, new_salt)
    # What the old key sealed must not stay in free pages: it may be known to others.
    connection.execute("PRAGMA secure_delete = ON").fetchone()
    # With less, a power cut could undo it after the old key was thrown away.
    connection.execute("PRAGMA synchronous = FULL")
    with transaction(connection):
        executions = _reseal(connection, old, new)
        values = [(new.key_id, "key_id"), (new_salt.hex(), "salt")]
        connection.executemany("UPDATE facts SET value = ? WHERE name = ?", values)
    return RekeyResult(executions=executions, copy=copy.name)


def _reseal(db: sqlite3.Connection, old: Seal, new: Seal) -> int:
    """Seal every body with the new key, which keeps its size; the number of executions."""
    # One body at a time in memory.
    for (digest,) in db.execute("SELECT digest FROM grants").fetchall():
        (sealed,) = db.execute("SELECT body FROM grants WHERE digest = ?", (digest,)).fetchone()
        packed = old.open(sealed, f"grant/{digest.hex()}")
        # The name of a grant is made with the key, too.
        name = new.digest(codec.inflate(packed))
        db.execute("DELETE FROM grants WHERE digest = ?", (digest,))
        db.execute("INSERT INTO grants VALUES (?, ?)", (name, new.seal(packed, f"grant/{name.hex()}")))
        db.execute("UPDATE executions SET granted = ? WHERE granted = ?", (name, digest))
    LessonTable(db, old).reseal(new)
    SqliteListing(db, old).reseal(new)
    old_snapshots, new_snapshots = seal_for_snapshots(old), seal_for_snapshots(new)
    executions = db.execute("SELECT number, id, title FROM executions").fetchall()
    for number, execution_id, title in executions:
        place = f"{execution_id}/title"
        values = (new.seal(old.open(title, place), place), number)
        db.execute("UPDATE executions SET title = ? WHERE number = ?", values)
        for (piece,) in db.execute("SELECT piece FROM pieces WHERE execution = ?", (number,)).fetchall():
            key = (number, piece)
            (body,) = db.execute("SELECT body FROM pieces WHERE execution = ? AND piece = ?", key).fetchone()
            if piece == SNAPSHOT:
                assert old_snapshots is not None
                assert new_snapshots is not None
                body = relock(body, old_snapshots, new_snapshots)
            else:
                place = f"{execution_id}/{piece}"
                body = new.seal(old.open(body, place), place)
            db.execute("UPDATE pieces SET body = ? WHERE execution = ? AND piece = ?", (body, *key))
    return len(executions)
