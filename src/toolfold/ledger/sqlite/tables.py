"""Tables of a SQLite ledger, and every statement on them. Synchronous; knows nothing of threads or loops.

An execution is one row that listings and fences read, and a few pieces that hold its story:
piece 0 is how it began, 1 and up are batches of entries, -1 is its outcome, -2 the snapshot of its last pause.
Grants are shared.
"""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Any, Final

from msgspec.structs import replace

from toolfold.errors import ToolfoldError, UsageError
from toolfold.ledger import base, codec
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.sqlite.listing import LessonTable, RetentionQueries, Row, SqliteListing
from toolfold.models import Outcome, ToolSpec
from toolfold.steady_clock import SteadyClock

SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE executions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    status TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    began_at REAL NOT NULL,
    touched_at REAL NOT NULL,
    seconds REAL NOT NULL,
    calls INTEGER NOT NULL,
    session TEXT NOT NULL,
    tenant TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    pieces INTEGER NOT NULL,
    is_full INTEGER NOT NULL,
    granted BLOB NOT NULL,
    title BLOB NOT NULL,
    interface TEXT NOT NULL,
    failed INTEGER NOT NULL DEFAULT 0,
    saved_bytes INTEGER NOT NULL DEFAULT 0,
    lanes BLOB NOT NULL DEFAULT x'',
    owner TEXT NOT NULL,
    names BLOB NOT NULL DEFAULT x''
);
CREATE INDEX executions_by_time ON executions (began_at);
CREATE INDEX executions_by_tenant ON executions (tenant, began_at);
CREATE INDEX executions_by_grant ON executions (granted);
CREATE INDEX executions_by_status ON executions (status, began_at);
CREATE INDEX executions_by_interface ON executions (interface, began_at);
CREATE INDEX executions_by_session ON executions (session, began_at);
CREATE INDEX executions_by_title ON executions (began_at, title);
CREATE INDEX executions_by_saving ON executions (began_at, interface, saved_bytes, tenant, status);
CREATE INDEX executions_by_word ON executions (touched_at, status, bytes);
CREATE TABLE pieces (execution INTEGER, piece INTEGER, body BLOB NOT NULL, PRIMARY KEY (execution, piece));
CREATE TABLE grants (digest BLOB PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE deadlines (execution INTEGER PRIMARY KEY, expires_at REAL NOT NULL);
CREATE INDEX deadlines_by_time ON deadlines (expires_at);
CREATE TABLE lessons (
    tenant TEXT NOT NULL, tool BLOB NOT NULL, touched_at REAL NOT NULL, body BLOB NOT NULL, PRIMARY KEY (tenant, tool)
);
CREATE TABLE decisions (
    execution TEXT NOT NULL, epoch INTEGER NOT NULL, call INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (execution, epoch, call)
) WITHOUT ROWID;
CREATE TABLE uses (
    tool BLOB NOT NULL, began_at REAL NOT NULL, execution INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (tool, began_at, execution)
) WITHOUT ROWID;
CREATE INDEX uses_by_execution ON uses (execution);
CREATE TABLE labels (
    label BLOB NOT NULL, began_at REAL NOT NULL, execution INTEGER NOT NULL, PRIMARY KEY (label, began_at, execution)
) WITHOUT ROWID;
CREATE INDEX labels_by_execution ON labels (execution);
"""
"""`owner` is the `ahead` file of the process that runs an execution, which has a lock on that; empty where nobody can
tell. Only executions that have a deadline are in `deadlines`. `tool` is a digest of the tool's name, which only the
sealed body has; `label` is one of a tag, a user, a conversation or a model, which only the sealed `names` have.
`decisions` are of people in other processes; see `remote_approval`.

Every index with a column that each pause and each batch of entries changes is a page more in each commit: there is only
one, by the time of the last word, which followers read, too. An execution has no status until it has ended, and that is
all that the others need of its state."""

SNAPSHOT: Final = -2
"""Piece that is sealed before it comes here."""
_OUTCOME: Final = -1
_CACHED_GRANTS: Final = 8
_SPOILT: Final = codec.encode_entry(base.TapeEntry(is_spoilt=True))
_FIND: Final = "SELECT number, state, epoch, calls, bytes, pieces, is_full FROM executions WHERE id = ?"
_WRITE: Final = (
    "UPDATE executions SET state = ?, epoch = ?, calls = ?, bytes = ?, pieces = ?, is_full = ?, touched_at = ?"
    " WHERE number = ?"
)
_END: Final = _WRITE.replace(" WHERE", ", status = ?, seconds = ?, failed = ?, saved_bytes = ?, lanes = ? WHERE")
"""Two, because SQLite writes each index anew that has a column which an UPDATE names, changed or not."""


class Tables:
    """Reads and writes on one connection.

    Rows of executions are read and written once in a transaction, however much happens to them: every statement hands
    the interpreter to the event loop and waits to get it back, so that what counts is how many there are.
    """

    def __init__(
        self, connection: sqlite3.Connection, seal: Seal | NoSeal, max_execution_bytes: int, clock: SteadyClock
    ) -> None:
        self._db = connection
        self._seal = seal
        self._max_bytes = max_execution_bytes
        self.lessons = LessonTable(connection, seal)
        self.changes = SqliteChanges(connection)
        self.listing = SqliteListing(connection, seal)
        self._rows: dict[str, Row] = {}
        """Of this transaction."""
        self._retention = RetentionQueries(connection, clock)
        # By identity, with the tuple held so that its id stays its own: a runtime grants the same one each time.
        self._grants: OrderedDict[int, tuple[tuple[ToolSpec, ...], bytes, bytes]] = OrderedDict()
        self.written_bytes = 0

    # writing

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is done in the `with`, or nothing of it."""
        try:
            with transaction(self._db):
                self.changes.begin()
                yield
                self.write()
        finally:
            self.drop()

    def write(self) -> None:
        """Write the changed rows: before a commit, and before a statement that reads them."""
        for row in self._rows.values():
            if row.is_changed:
                row.is_changed = False
                values = (row.state, row.epoch, row.calls, row.bytes, row.pieces, row.is_full, self.changes.now())
                statement = _WRITE if row.ending is None else _END
                self._db.execute(statement, (*values, *(row.ending or ()), row.number))

    def drop(self) -> None:
        """Forget the rows: others may write from now on."""
        self._rows.clear()

    def begin(self, start: base.StartRecord, owner: str = "") -> None:
        """A new execution. Files that pass its limit are left out, and it cannot be replayed."""
        body, is_full = codec.encode_start(start), 0
        if len(body) > self._max_bytes:
            body, is_full = codec.encode_start(replace(start, files=())), 1
        granted = self._grant(start.tools)
        title = self._seal.seal(base.first_line(start.program.sent_text).encode(), f"{start.execution_id}/title")
        values = (
            start.execution_id, start.began_at, self.changes.now(), start.session, start.tenant, len(body), is_full,
            granted, title, start.interface, owner, self.listing.seal_names(start),
        )  # fmt: skip
        try:
            cursor = self._db.execute(
                "INSERT INTO executions (id, state, status, epoch, began_at, touched_at, seconds, calls, session,"
                " tenant, bytes, pieces, is_full, granted, title, interface, owner, names)"
                " VALUES (?, 'running', '', 0, ?, ?, 0, 0, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)",
                values,
            )
        except sqlite3.IntegrityError as error:
            raise base.duplicate_error(start.execution_id) from error
        number = cursor.lastrowid
        assert number is not None
        if start.expires_at:
            self._db.execute("INSERT INTO deadlines VALUES (?, ?)", (number, start.expires_at))
        self.listing.add_labels(number, start)
        self._put(start.execution_id, number, 0, body)
        row = Row(number, bytes=len(body), is_full=is_full)
        self._rows[start.execution_id] = row
        if is_full:
            self._append(start.execution_id, row, [_SPOILT])

    def add(self, execution_id: str, epoch: int, bodies: Sequence[bytes]) -> None:
        """Entries of a running execution. Past its limit they are left out, and it is marked as full."""
        row = self._row(execution_id, epoch)
        if row.is_full:
            return
        room = self._max_bytes - row.bytes
        fitting = [body for body, end in zip(bodies, accumulate(map(len, bodies)), strict=True) if end <= room]
        if len(fitting) < len(bodies):
            fitting.append(_SPOILT)
            row.is_full = 1
        self._append(execution_id, row, fitting)

    def lose(self, execution_id: str) -> None:
        """Entries were not kept; from here on the record says so."""
        with suppress(ToolfoldError):  # it is gone, or has ended with what it has
            row = self._row(execution_id, None)
            row.is_full, row.is_changed = 1, True

    def check(self, execution_id: str, epoch: int | None = None) -> None:
        """Raises where what was added is not all there, or another epoch has begun."""
        row = self._find(execution_id, epoch)
        if row.is_full:
            raise base.full_error(execution_id, self._max_bytes)

    def park(self, execution_id: str, epoch: int, snapshot: base.SealedSnapshot | None = None) -> None:
        row = self._row(execution_id, epoch)
        if row.is_full:
            raise base.full_error(execution_id, self._max_bytes)
        if snapshot is not None and row.bytes + len(snapshot.body) <= self._max_bytes:
            self._append(execution_id, row, [codec.encode_entry(base.PauseEntry(snapshot.round))])
            self._drop_snapshot(row)
            # As it is: it was packed and sealed before it came here.
            self._db.execute("INSERT INTO pieces VALUES (?, ?, ?)", (row.number, SNAPSHOT, snapshot.body))
            row.bytes += len(snapshot.body)
            self.written_bytes += len(snapshot.body)
        row.state, row.is_changed = "paused", True

    def accept(self, execution_id: str, epoch: int, bodies: Sequence[bytes]) -> None:
        """Replies of the outside, all or none; the execution runs again."""
        row = self._row(execution_id, epoch)
        if row.is_full or row.bytes + sum(map(len, bodies)) > self._max_bytes:
            raise base.full_error(execution_id, self._max_bytes)
        row.state = "running"
        self._append(execution_id, row, bodies)

    def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        """Keep the first decision on a call, while its execution has not ended."""
        try:
            row = self._row(execution_id, epoch)
        except ToolfoldError:
            return False
        values = (execution_id, epoch, call_id, body)
        is_first = self._db.execute("INSERT OR IGNORE INTO decisions VALUES (?, ?, ?, ?)", values).rowcount > 0
        row.is_changed = row.is_changed or is_first
        return is_first

    def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        row = self._db.execute(
            "SELECT body FROM decisions WHERE execution = ? AND epoch = ? AND call = ?", (execution_id, epoch, call_id)
        ).fetchone()
        return None if row is None else row[0]

    def takeover(self, execution_id: str, owner: str = "") -> int:
        row = self._row(execution_id, None)
        row.epoch += 1
        row.is_changed = True
        self._db.execute("UPDATE executions SET owner = ? WHERE number = ?", (owner, row.number))
        return row.epoch

    def owner(self, execution_id: str) -> str:
        row = self._db.execute(
            "SELECT owner FROM executions WHERE id = ? AND state = 'running'", (execution_id,)
        ).fetchone()
        return "" if row is None else row[0]

    def finish(self, execution_id: str, epoch: int, outcome: Outcome, body: bytes) -> None:
        """The end; `body` is the outcome encoded, and is cut down where it passes the limit."""
        row = self._row(execution_id, epoch)
        if row.is_full:
            # Some of the entries are not there, so that its calls must be.
            body = codec.encode_outcome(outcome, {})
        if len(body) > self._max_bytes:
            body = codec.encode_truncated(outcome, self._max_bytes)
        row.state, row.is_changed = "ended", True
        row.bytes += len(body)
        self._put(execution_id, row.number, _OUTCOME, body)
        self._drop_snapshot(row)
        self.listing.add_ending(row, execution_id, outcome)

    def _drop_snapshot(self, row: Row) -> None:
        place = (row.number, SNAPSHOT)
        size_row = self._db.execute(
            "SELECT length(body) FROM pieces WHERE execution = ? AND piece = ?", place
        ).fetchone()
        if size_row is not None:
            self._db.execute("DELETE FROM pieces WHERE execution = ? AND piece = ?", place)
            row.bytes -= size_row[0]

    def _find(self, execution_id: str, epoch: int | None) -> Row:
        row = self._rows.get(execution_id)
        if row is None:
            values = self._db.execute(_FIND, (execution_id,)).fetchone()
            if values is None:
                raise base.unknown_error(execution_id)
            row = self._rows[execution_id] = Row(*values)
        if epoch is not None and row.epoch != epoch:
            raise base.fenced_error(execution_id)
        return row

    def _row(self, execution_id: str, epoch: int | None) -> Row:
        """The execution, if this epoch may still write to it."""
        row = self._find(execution_id, epoch)
        if row.state == "ended":
            raise base.ended_error(execution_id)
        return row

    def _append(self, execution_id: str, row: Row, bodies: Sequence[bytes]) -> None:
        self._put(execution_id, row.number, row.pieces, codec.join_entries(bodies))
        row.pieces += 1
        row.calls += sum(map(codec.is_call, bodies))
        row.bytes += sum(map(len, bodies))
        row.is_changed = True

    def _put(self, execution_id: str, number: int, piece: int, body: bytes) -> None:
        sealed = self._seal.seal(codec.deflate(body), f"{execution_id}/{piece}")
        self.written_bytes += len(sealed)
        self._db.execute("INSERT INTO pieces VALUES (?, ?, ?)", (number, piece, sealed))

    def _grant(self, tools: tuple[ToolSpec, ...]) -> bytes:
        grant = self._grants.pop(id(tools), None)
        if grant is None:
            body = codec.encode_tools(tools)
            grant = (tools, self._seal.digest(body), body)
        self._grants[id(tools)] = grant
        if len(self._grants) > _CACHED_GRANTS:
            self._grants.popitem(last=False)
        _, digest, body = grant
        # Asked for each time: another process may have swept it away with the last execution that had it.
        if not self._db.execute("SELECT 1 FROM grants WHERE digest = ?", (digest,)).fetchone():
            sealed = self._seal.seal(codec.deflate(body), f"grant/{digest.hex()}")
            self._db.execute("INSERT INTO grants VALUES (?, ?)", (digest, sealed))
        return digest

    # reading

    def count(self, execution_id: str) -> int | None:
        """Number of entries; `None` if the execution is not there."""
        try:
            number = self._find(execution_id, None).number
        except UsageError:
            return None
        return sum(codec.count_entries(body) for _, body in self._batches(execution_id, number))

    def load(
        self, execution_id: str, missing: Callable[[int], Sequence[bytes]] = lambda _: ()
    ) -> base.ExecutionHistory | None:
        """One execution, whole; `missing` has the entries behind those that are here, while it runs elsewhere."""
        row = self._db.execute(
            "SELECT number, state, epoch, is_full, granted, body FROM executions LEFT JOIN grants ON digest = granted"
            " WHERE id = ?",
            (execution_id,),
        ).fetchone()
        if row is None:
            return None
        number, state, epoch, is_full, granted, sealed = row
        tools = codec.decode_tools(codec.inflate(self._seal.open(sealed, f"grant/{granted.hex()}")))
        entries: list[base.Entry] = []
        for _, body in self._batches(execution_id, number):
            entries.extend(codec.decode_entries(body))
        if state == "running" and not is_full:
            entries.extend(codec.decode_entries(codec.join_entries(missing(len(entries)))))
        return base.ExecutionHistory(
            start_record=codec.decode_start(self._unpack(execution_id, 0, self._piece(execution_id, 0)), tools),
            entries=tuple(entries), state=state, epoch=epoch, outcome=self._outcome(execution_id, entries),
            is_full=bool(is_full),
        )  # fmt: skip

    def snapshot(self, execution_id: str) -> bytes | None:
        """The latest, as it was given to `park`."""
        body: bytes | None = self._piece(execution_id, SNAPSHOT)
        return body

    def story(self, execution_id: str, after: int) -> base.Story | None:
        row = self._db.execute("SELECT number, state, epoch FROM executions WHERE id = ?", (execution_id,)).fetchone()
        if row is None:
            return None
        number, state, epoch = row
        entries: list[base.Entry] = []
        for piece, body in self._batches(execution_id, number, max(0, after)):
            entries.extend(codec.decode_entries(body))
            after = piece
        outcome = self._outcome(execution_id, ())
        return base.Story(state=state, epoch=epoch, place=after, entries=tuple(entries), outcome=outcome)

    def _batches(self, execution_id: str, number: int, after: int = 0) -> Iterator[tuple[int, bytes]]:
        for piece, sealed in self._db.execute(
            "SELECT piece, body FROM pieces WHERE execution = ? AND piece > ? ORDER BY piece", (number, after)
        ):
            yield piece, self._unpack(execution_id, piece, sealed)

    def _outcome(self, execution_id: str, entries: Sequence[base.Entry]) -> Outcome | None:
        sealed = self._piece(execution_id, _OUTCOME)
        if sealed is None:
            return None
        return codec.decode_outcome(self._unpack(execution_id, _OUTCOME, sealed), entries)

    # Any: `None` where it is not there, which is damage where it has to be.
    def _piece(self, execution_id: str, piece: int) -> Any:
        row = self._db.execute(
            "SELECT body FROM pieces WHERE piece = ? AND execution = (SELECT number FROM executions WHERE id = ?)",
            (piece, execution_id),
        ).fetchone()
        return None if row is None else row[0]

    def _unpack(self, execution_id: str, piece: int, sealed: bytes) -> bytes:
        return codec.inflate(self._seal.open(sealed, f"{execution_id}/{piece}"))

    def find(self, prefix: str, limit: int) -> list[str]:
        # A range, so that the index is used; `LIKE` would ignore case and read every row.
        rows = self._db.execute(
            "SELECT id FROM executions WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            (prefix, prefix + chr(0x10FFFF), limit),
        )
        return [execution_id for (execution_id,) in rows]

    # forgetting

    def is_over(self, keep: base.Retention) -> bool:
        """Whether there is something that `keep` does not allow. Needs no transaction."""
        return self._retention.is_due(keep)

    def sweep(self, keep: base.Retention, is_enough: Callable[[], bool] = lambda: False) -> int:
        """Forget what `keep` does not allow, a few at a time, until it `is_enough`; how many went."""
        self.write()
        return self._forget(self._retention.pick_expired(keep), is_enough)

    def delete(self, execution_id: str) -> bool:
        row = self._db.execute("SELECT number FROM executions WHERE id = ?", (execution_id,)).fetchone()
        self._forget(row or ())
        return row is not None

    def _forget(self, numbers: Sequence[int], is_enough: Callable[[], bool] = lambda: False) -> int:
        self.write()
        self.drop()
        grants: set[tuple[bytes]] = set()
        count = 0
        for number in numbers:
            if is_enough():
                break
            count += 1
            grants.update(self._db.execute("SELECT granted FROM executions WHERE number = ?", (number,)))
            self._db.execute(
                "DELETE FROM decisions WHERE execution = (SELECT id FROM executions WHERE number = ?)", (number,)
            )
            for table in ("pieces", "deadlines", "uses", "labels"):
                self._db.execute(f"DELETE FROM {table} WHERE execution = ?", (number,))  # noqa: S608 - a text of ours
            self._db.execute("DELETE FROM executions WHERE number = ?", (number,))
        for (digest,) in grants:
            self._db.execute(
                "DELETE FROM grants WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM executions WHERE granted = ?1)",
                (digest,),
            )
        return count


# ----------------------------------------------------------------------------------------------------
# Change feed of a SQLite ledger: executions in the order of their commits, and decisions on calls.
#
# Nothing is written for it. The row of an execution has the time of its last write, in an index; each transaction gives
# later times than all before it, so they rise in the order of the commits. A reader of one has read all before it; of
# an execution that was written several times in between, only the last.

_AT_ONCE: Final = 1000
_AHEAD_SECONDS: Final = 3600.0
"""A clock may be set back by so much, and times count on. Later times come from a clock that was wrong; they are
ignored, or no execution would become old enough to be forgotten."""
_CURSOR: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)

_LAST: Final = "SELECT max(touched_at) FROM executions WHERE touched_at <= ?"
_AFTER: Final = (
    "SELECT touched_at, id FROM executions WHERE touched_at > ? AND touched_at <= ? ORDER BY touched_at LIMIT ?"
)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is done in the `with`, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            if connection.in_transaction:  # a full disk has ended it already
                connection.execute("ROLLBACK")
        raise


class SqliteChanges:
    """Order of writes on one connection; the caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._latest = 0.0
        """No time that was given here is later."""
        self._is_new = True
        """The transaction has not written yet, and others may have written before it."""

    def begin(self) -> None:
        """Begin a transaction that writes."""
        self._is_new = True

    def now(self) -> float:
        """Time of a write: later than all that were committed, and than all in this transaction."""
        latest, now = self._latest, 0.0
        if self._is_new:
            self._is_new = False
            now = time.time()
            latest = max(latest if latest <= now + _AHEAD_SECONDS else 0.0, self._last(now))
        self._latest = max(now, math.nextafter(latest, math.inf))
        return self._latest

    def last(self) -> str:
        return repr(self._last(time.time()))

    def after(self, cursor: str) -> list[base.LedgerChange]:
        """The next ones, at most a thousand; the first has no id if some before it may be missing."""
        position, now = float(cursor), time.time()
        changes: list[base.LedgerChange] = []
        if position > now and position > (last := self._last(now)):
            # The clock was set back, and nothing holds the place of the cursor: what comes next may lie before it.
            position = last
            changes.append(base.LedgerChange(cursor=repr(position), execution_id=""))
        rows = self._db.execute(_AFTER, (position, now + _AHEAD_SECONDS, _AT_ONCE))
        changes += (base.LedgerChange(cursor=repr(at), execution_id=execution_id) for at, execution_id in rows)
        return changes

    def _last(self, now: float) -> float:
        (at,) = self._db.execute(_LAST, (now + _AHEAD_SECONDS,)).fetchone()
        return at or 0.0


def is_cursor(text: str) -> bool:
    """Whether it can be one of this ledger's."""
    return _CURSOR.fullmatch(text) is not None
