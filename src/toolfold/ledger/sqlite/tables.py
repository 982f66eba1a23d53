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
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from toolfold.clocks import SteadyClock
from toolfold.errors import ToolfoldError, UsageError
from toolfold.ledger import base, codec
from toolfold.ledger.base import (
    Entry,
    ExecutionHistory,
    LedgerChange,
    PauseEntry,
    Retention,
    SealedSnapshot,
    StartRecord,
    Story,
    TapeEntry,
    first_line,
)
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.sqlite.listing import LessonTable, RetentionQueries, Row, Rows, SqliteListing
from toolfold.models import Outcome, ToolSpec

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
    owner TEXT NOT NULL
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
"""
"""`owner` is the `ahead` file of the process that runs an execution, which has a lock on that; empty where nobody can
tell. Only executions that have a deadline are in `deadlines`.

Every index with a column that each pause and each batch of entries changes is a page more in each commit: there is only
one, by the time of the last word, which followers read, too. An execution has no status until it has ended, and that is
all that the others need of its state."""

SNAPSHOT: Final = -2
"""The piece that is sealed by `snapshots`, and not here."""
_OUTCOME: Final = -1
_CACHED_GRANTS: Final = 8
_SPOILT: Final = codec.encode_entry(TapeEntry(is_spoilt=True))


class Tables:
    """Reads and writes on one connection. The caller begins and ends transactions."""

    def __init__(
        self, connection: sqlite3.Connection, seal: Seal | NoSeal, max_execution_bytes: int, clock: SteadyClock
    ) -> None:
        self._db = connection
        self._seal = seal
        self._max_bytes = max_execution_bytes
        self.lessons = LessonTable(connection, seal)
        self.changes = SqliteChanges(connection)
        self.listing = SqliteListing(connection, seal)
        self._rows = Rows(connection, self.changes)
        self._retention = RetentionQueries(connection, clock)
        # By identity, with the tuple held so that its id stays its own: a runtime grants the same one each time.
        self._grants: OrderedDict[int, tuple[tuple[ToolSpec, ...], bytes, bytes]] = OrderedDict()
        self.written_bytes = 0

    # writing

    def write(self) -> None:
        """Before a commit: what was only remembered so far."""
        self._rows.write()
        self._rows.drop()

    def drop(self) -> None:
        """The transaction was rolled back."""
        self._rows.drop()

    def begin(self, start: StartRecord, owner: str = "") -> None:
        """A new execution. Files that pass its limit are left out, and it cannot be replayed."""
        body, is_full = codec.encode_start(start), 0
        if len(body) > self._max_bytes:
            body, is_full = codec.encode_start(replace(start, files=())), 1
        granted = self._grant(start.tools)
        title = self._seal.seal(first_line(start.program.sent_text).encode(), f"{start.execution_id}/title")
        values = (
            start.execution_id, start.began_at, self.changes.now(), start.session, start.tenant, len(body), is_full,
            granted, title, start.interface, owner,
        )  # fmt: skip
        try:
            cursor = self._db.execute(
                "INSERT INTO executions (id, state, status, epoch, began_at, touched_at, seconds, calls, session,"
                " tenant, bytes, pieces, is_full, granted, title, interface, owner)"
                " VALUES (?, 'running', '', 0, ?, ?, 0, 0, ?, ?, ?, 1, ?, ?, ?, ?, ?)",
                values,
            )
        except sqlite3.IntegrityError as error:
            raise base.duplicate_error(start.execution_id) from error
        number = cursor.lastrowid
        assert number is not None
        if start.expires_at:
            self._db.execute("INSERT INTO deadlines VALUES (?, ?)", (number, start.expires_at))
        self._put(start.execution_id, number, 0, body)
        row = Row(number, bytes=len(body), is_full=is_full)
        self._rows.add(start.execution_id, row)
        if is_full:
            self._append(start.execution_id, row, [_SPOILT])

    def add(self, execution_id: str, epoch: int, bodies: Sequence[bytes]) -> None:
        """Entries of a running execution. Past its limit they are left out, and it is marked as full."""
        row = self._row(execution_id, epoch)
        if row.is_full:
            return
        room = self._max_bytes - row.bytes
        if sum(map(len, bodies)) <= room:
            self._append(execution_id, row, bodies)
            return
        fitting = []
        for body in bodies:
            room -= len(body)
            if room < 0:
                break
            fitting.append(body)
        self._append(execution_id, row, [*fitting, _SPOILT])
        row.is_full = 1

    def lose(self, execution_id: str) -> None:
        """Entries were not kept; from here on the record says so."""
        with suppress(ToolfoldError):  # it is gone, or has ended with what it has
            row = self._row(execution_id, None)
            row.is_full, row.is_changed = 1, True

    def check(self, execution_id: str, epoch: int | None = None) -> None:
        """Raises where what was added is not all there, or another epoch has begun."""
        row = self._rows.find(execution_id)
        if epoch is not None and row.epoch != epoch:
            raise base.fenced_error(execution_id)
        if row.is_full:
            raise base.full_error(execution_id, self._max_bytes)

    def park(self, execution_id: str, epoch: int, snapshot: SealedSnapshot | None = None) -> None:
        """Running to paused."""
        row = self._row(execution_id, epoch)
        if row.is_full:
            raise base.full_error(execution_id, self._max_bytes)
        if snapshot is not None and row.bytes + len(snapshot.body) <= self._max_bytes:
            self._append(execution_id, row, [codec.encode_entry(PauseEntry(snapshot.round))])
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
        """The first decision on a call, while its execution has not ended."""
        self._rows.write()
        return self.changes.decide(execution_id, epoch, call_id, body)

    def takeover(self, execution_id: str, owner: str = "") -> int:
        """The next epoch."""
        row = self._row(execution_id, None)
        row.epoch += 1
        row.is_changed = True
        self._db.execute("UPDATE executions SET owner = ? WHERE number = ?", (owner, row.number))
        return row.epoch

    def owner(self, execution_id: str) -> str:
        """Owner of a running execution, if it is known."""
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
        row.ending = self.listing.add_ending(row.number, execution_id, outcome)

    def _drop_snapshot(self, row: Row) -> None:
        place = (row.number, SNAPSHOT)
        size_row = self._db.execute(
            "SELECT length(body) FROM pieces WHERE execution = ? AND piece = ?", place
        ).fetchone()
        if size_row is not None:
            self._db.execute("DELETE FROM pieces WHERE execution = ? AND piece = ?", place)
            row.bytes -= size_row[0]

    def _row(self, execution_id: str, epoch: int | None) -> Row:
        """The execution, if this epoch may still write to it."""
        row = self._rows.find(execution_id)
        if epoch is not None and row.epoch != epoch:
            raise base.fenced_error(execution_id)
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
        """How many entries it has; `None` if it is not there."""
        try:
            number = self._rows.find(execution_id).number
        except UsageError:
            return None
        rows = self._db.execute("SELECT piece, body FROM pieces WHERE execution = ? AND piece > 0", (number,))
        return sum(codec.count_entries(self._unpack(execution_id, *row)) for row in rows)

    def load(
        self, execution_id: str, missing: Callable[[int], Sequence[bytes]] = lambda _: ()
    ) -> ExecutionHistory | None:
        """One execution, whole; `missing` has the entries behind those that are here, while it runs elsewhere."""
        row = self._db.execute(
            "SELECT number, state, epoch, granted, is_full FROM executions WHERE id = ?", (execution_id,)
        ).fetchone()
        if row is None:
            return None
        number, state, epoch, granted, is_full = row
        pieces: dict[int, bytes] = {}
        for piece, sealed in self._db.execute(
            "SELECT piece, body FROM pieces WHERE execution = ? AND piece >= ? ORDER BY piece", (number, _OUTCOME)
        ):
            pieces[piece] = self._unpack(execution_id, piece, sealed)
        (sealed,) = self._db.execute("SELECT body FROM grants WHERE digest = ?", (granted,)).fetchone()
        tools = codec.decode_tools(codec.inflate(self._seal.open(sealed, f"grant/{granted.hex()}")))
        entries: list[Entry] = []
        for piece, body in pieces.items():
            if piece > 0:
                entries.extend(codec.decode_entries(body))
        if state == "running" and not is_full:
            entries.extend(codec.decode_entries(codec.join_entries(missing(len(entries)))))
        outcome_body = pieces.get(_OUTCOME)
        return ExecutionHistory(
            start_record=codec.decode_start(pieces[0], tools),
            entries=tuple(entries),
            state=state,
            epoch=epoch,
            outcome=None if outcome_body is None else codec.decode_outcome(outcome_body, entries),
            is_full=bool(is_full),
        )

    def snapshot(self, execution_id: str) -> bytes | None:
        """The latest, as it was given to `park`."""
        row = self._db.execute(
            "SELECT body FROM pieces WHERE piece = ? AND execution = (SELECT number FROM executions WHERE id = ?)",
            (SNAPSHOT, execution_id),
        ).fetchone()
        return None if row is None else row[0]

    def story(self, execution_id: str, after: int) -> Story | None:
        """The batches of entries after this one, and the outcome if there is one."""
        row = self._db.execute("SELECT number, state, epoch FROM executions WHERE id = ?", (execution_id,)).fetchone()
        if row is None:
            return None
        number, state, epoch = row
        entries: list[Entry] = []
        place = after
        for piece, sealed in self._db.execute(
            "SELECT piece, body FROM pieces WHERE execution = ? AND piece > ? ORDER BY piece", (number, max(0, after))
        ):
            entries.extend(codec.decode_entries(self._unpack(execution_id, piece, sealed)))
            place = piece
        outcome_row = self._db.execute(
            "SELECT body FROM pieces WHERE execution = ? AND piece = ?", (number, _OUTCOME)
        ).fetchone()
        outcome = (
            None
            if outcome_row is None
            else codec.decode_outcome(self._unpack(execution_id, _OUTCOME, outcome_row[0]), ())
        )
        return Story(state=state, epoch=epoch, place=place, entries=tuple(entries), outcome=outcome)

    def _unpack(self, execution_id: str, piece: int, sealed: bytes) -> bytes:
        return codec.inflate(self._seal.open(sealed, f"{execution_id}/{piece}"))

    def find(self, prefix: str, limit: int) -> list[str]:
        """Ids that start with this."""
        # A range, so that the index is used; `LIKE` would ignore case and read every row.
        rows = self._db.execute(
            "SELECT id FROM executions WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            (prefix, prefix + chr(0x10FFFF), limit),
        )
        return [execution_id for (execution_id,) in rows]

    # forgetting

    def is_over(self, keep: Retention) -> bool:
        """Whether there is something that `keep` does not allow. Needs no transaction."""
        return self._retention.is_due(keep)

    def sweep(self, keep: Retention, is_enough: Callable[[], bool] = lambda: False) -> int:
        """Forget what `keep` does not allow, a few at a time, until it `is_enough`; how many went."""
        self._rows.write()
        return self._forget(self._retention.pick_expired(keep), is_enough)

    def delete(self, execution_id: str) -> bool:
        """Forget one; false if it is not there."""
        row = self._db.execute("SELECT number FROM executions WHERE id = ?", (execution_id,)).fetchone()
        self._forget(row or ())
        return row is not None

    def _forget(self, numbers: Sequence[int], is_enough: Callable[[], bool] = lambda: False) -> int:
        self._rows.write()
        self._rows.drop()
        grants: set[tuple[bytes]] = set()
        count = 0
        for number in numbers:
            if is_enough():
                break
            count += 1
            grants.update(self._db.execute("SELECT granted FROM executions WHERE number = ?", (number,)))
            self.changes.forget(number)
            self._db.execute("DELETE FROM pieces WHERE execution = ?", (number,))
            self._db.execute("DELETE FROM executions WHERE number = ?", (number,))
            self._db.execute("DELETE FROM deadlines WHERE execution = ?", (number,))
            self.listing.forget(number)
        for (digest,) in grants:
            self._db.execute(
                "DELETE FROM grants WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM executions WHERE granted = ?1)",
                (digest,),
            )
        return count


# ----------------------------------------------------------------------------------------------------
# Change feed of a SQLite ledger: executions in the order of their commits, and decisions on calls.
#
# Nothing is written for it. The row of an execution has always had the time at which it was last written, in an index;
# each transaction gives later times than all before it, so they rise in the order of the commits. Who has seen
# one has seen all before it; of an execution that was written several times in between, only the last.

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
