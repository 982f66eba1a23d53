"""Full-text index of a SQLite ledger, in a file of its own beside it. Written by consoles, never by programs.

* A program's transaction does not know of it. A process in which people search reads what has ended since the last
  look, and adds it here in transactions of its own; nothing of the ledger is locked meanwhile.
* `documents` has the numbers of the executions that are in it; their words are in tables of ten thousand numbers each,
  without the text itself (`content=''`). Searches go through them from the newest on, until a page is full.
* `marks` holds digests of what the operators ask for, so that an operator and a frequent word are met in the index.
* Words of forgotten executions are not found, because each hit is joined with the ledger. They leave the file with
  their table, or when that is written anew: at once if a fifth of it is gone, else within an hour.
* A sealed ledger has no such file: it would tell what the seal hides.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from toolfold.errors import ToolfoldError, UsageError
from toolfold.ledger.base import (
    MAX_EXECUTION_BYTES,
    CallEntry,
    ExecutionFilter,
    ExecutionHistory,
    ExecutionSummary,
    ReplyEntry,
)
from toolfold.ledger.encryption import NoSeal
from toolfold.ledger.execution_summaries import filter_labels, label, labels_of, search_terms, uses_of
from toolfold.ledger.sqlite.tables import Tables
from toolfold.models import Value
from toolfold.outcome_views import value_as_json
from toolfold.steady_clock import SteadyClock

_log: Final = logging.getLogger("toolfold.ledger")
_FORMAT: Final = 1
_CHUNK: Final = 10_000
_BATCH: Final = 100
_PAUSE_SECONDS: Final = 1.0
_LOOKED_AT_SECONDS: Final = 60.0
"""Between two looks for forgotten executions."""
_REWRITE_SECONDS: Final = 3600.0
_DEAD_SHARE: Final = 0.2
_MOST_OPEN: Final = 50
"""Executions that still run or are not indexed yet, and are read for each search."""
_DOCUMENT_CHARACTERS: Final = 64 * 1024
_VALUE_CHARACTERS: Final = 4 * 1024
_SLACK: Final = 2000
"""Executions that may have begun before one with a smaller number."""
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS main.state (name TEXT PRIMARY KEY, value)",
    "CREATE TABLE IF NOT EXISTS main.documents (number INTEGER PRIMARY KEY)",
)
_ENDED_SINCE: Final = (
    "SELECT number, id, touched_at FROM executions INDEXED BY executions_by_word"
    " WHERE touched_at > ? AND status != '' ORDER BY touched_at LIMIT ?"
)


class WordIndex:
    """Index of the words in a ledger's records; a thread of its own keeps it up to date once it has begun.

    Raises:
        sqlite3.Error: This SQLite has no FTS5, or no file can be written beside the ledger.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._path = ledger.with_name(f"{ledger.name}-words")
        self._lock = threading.Lock()
        self._db = self._open()
        self._tables = _tables(self._db)
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    # searching

    def search(self, query: ExecutionFilter, limit: int, before: str) -> list[ExecutionSummary]:
        """Executions that have all words of `query.words`, the newest first."""
        with self._lock:
            rows = dict(self._fresh_matches(query, before))
            for summary, number in self._indexed_matches(query, limit, before):
                rows.setdefault(number, summary)
            return [rows[number] for number in sorted(rows, reverse=True)[:limit]]

    def pending(self) -> int:
        """How many executions are not in the index yet; at most a thousand are counted."""
        with self._lock:
            return len(self._db.execute(_ENDED_SINCE, (self._cursor(self._db), 1000)).fetchall())

    def _indexed_matches(
        self, query: ExecutionFilter, limit: int, before: str
    ) -> Iterator[tuple[ExecutionSummary, int]]:
        expression = _match_expression(query)
        if not expression:
            return
        first = 0
        if query.since is not None:
            row = self._db.execute(
                "SELECT number FROM executions WHERE began_at >= ? ORDER BY began_at LIMIT 1", (query.since,)
            ).fetchone()
            if row is None:
                return
            first = max(0, row[0] - _SLACK)
        for chunk in sorted(_chunks(self._db), reverse=True):
            if limit <= 0 or (chunk + 1) * _CHUNK <= first:
                return
            matches = self._tables.listing.word_matches(query, before, f"words_{chunk}", expression, limit)
            limit -= len(matches)
            yield from matches

    def _fresh_matches(self, query: ExecutionFilter, before: str) -> Iterator[tuple[int, ExecutionSummary]]:
        """Executions that still run, or ended a moment ago: read as they are."""
        plain = replace(query, words=None)
        cursor = self._cursor(self._db)
        rows = self._db.execute(
            "SELECT number, id FROM (SELECT number, id FROM executions INDEXED BY executions_by_status"
            " WHERE status = '' ORDER BY began_at DESC LIMIT ?1) UNION SELECT number, id FROM"
            " (SELECT number, id FROM executions WHERE touched_at > ?2 AND status != ''"
            " ORDER BY touched_at DESC LIMIT ?1)",
            (_MOST_OPEN, cursor),
        ).fetchall()
        terms = [term.casefold() for term, _ in search_terms(query.words or "")]
        for number, execution_id in rows:
            if before and self._is_behind(number, before):
                continue
            matches = self._tables.listing.search(replace(plain, id=execution_id), 1, "")
            history = self._tables.load(execution_id) if matches else None
            if history is not None:
                text = document_of(history).casefold()
                if all(term in text for term in terms):
                    yield number, matches[0]

    def _is_behind(self, number: int, before: str) -> bool:
        row = self._db.execute("SELECT number FROM executions WHERE id = ?", (before,)).fetchone()
        return row is None or number >= row[0]

    # writing

    def begin(self) -> None:
        """Keep it up to date from now on, in the background."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="toolfold-words", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._db.close()

    def reindex(self, report: Callable[[int], None] = lambda _: None) -> int:
        """Write all of it anew; the number of executions."""
        with self._lock:
            for chunk in _chunks(self._db):
                self._db.execute(f"DROP TABLE words_{chunk}")
            self._db.execute("DELETE FROM documents")
            self._db.execute("DELETE FROM state WHERE name = 'cursor'")
            count = 0
            while added := self._add_batch(self._db, self._tables):
                count += added
                report(count)
            self._db.execute("VACUUM main")
            return count

    def _work(self) -> None:
        try:
            connection = self._open()
            tables = _tables(connection)
            looked_at, rewritten = 0.0, dict.fromkeys(_chunks(connection), time.monotonic())
            while not self._closing.is_set():
                try:
                    added = self._add_batch(connection, tables)
                    if time.monotonic() - looked_at > _LOOKED_AT_SECONDS:
                        looked_at = time.monotonic()
                        self._clean(connection, tables, rewritten)
                except (sqlite3.Error, ToolfoldError) as error:
                    _log.warning("the search index beside the ledger was not written, and is tried again: %s", error)
                    added = 0
                # A breath after each batch: programs of this process want the interpreter, too.
                self._closing.wait(0.02 if added == _BATCH else _PAUSE_SECONDS)
            connection.close()
        except sqlite3.Error as error:
            _log.warning("the ledger has no search index: %s", error)

    def _add_batch(self, db: sqlite3.Connection, tables: Tables) -> int:
        """Add what ended since the last batch; the number of executions that were looked at."""
        cursor = self._cursor(db)
        rows = db.execute(_ENDED_SINCE, (cursor, _BATCH)).fetchall()
        if not rows:
            return 0
        documents = [document for number, name, _ in rows for document in _documents(tables, number, name)]
        # Not IMMEDIATE: that would lock the attached ledger, too.
        db.execute("BEGIN")
        try:
            db.execute("INSERT OR IGNORE INTO state VALUES ('cursor', 0.0)")
            is_next = db.execute(
                "UPDATE state SET value = ? WHERE name = 'cursor' AND value = ?", (rows[-1][2], cursor)
            ).rowcount
            if is_next:  # else another process was first
                _insert(db, documents)
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        return len(rows)

    def _clean(self, db: sqlite3.Connection, tables: Tables, rewritten: dict[int, float]) -> None:
        """Drop tables of which nothing is left, and write anew those of which much is gone."""
        for chunk in _chunks(db):
            if self._closing.is_set():
                return
            numbers = (chunk * _CHUNK, (chunk + 1) * _CHUNK)
            documents, there = db.execute(
                "SELECT count(*), count(e.number) FROM documents d LEFT JOIN executions e ON e.number = d.number"
                " WHERE d.number >= ? AND d.number < ?",
                numbers,
            ).fetchone()
            age = time.monotonic() - rewritten.setdefault(chunk, time.monotonic())
            is_due = documents - there > documents * _DEAD_SHARE or age > _REWRITE_SECONDS
            if documents == there or not is_due:
                continue
            rewritten[chunk] = time.monotonic()
            rows = db.execute(
                "SELECT d.number, e.id FROM documents d JOIN executions e ON e.number = d.number"
                " WHERE d.number >= ? AND d.number < ?",
                numbers,
            ).fetchall()
            contents = [document for number, name in rows for document in _documents(tables, number, name)]
            db.execute("BEGIN")
            db.execute(f"DROP TABLE words_{chunk}")
            db.execute("DELETE FROM documents WHERE number >= ? AND number < ?", numbers)
            _insert(db, contents)
            db.execute("COMMIT")

    def _cursor(self, db: sqlite3.Connection) -> float:
        row = db.execute("SELECT value FROM state WHERE name = 'cursor'").fetchone()
        return row[0] if row else 0.0

    def _open(self) -> sqlite3.Connection:
        identity = self._ledger.stat()
        own = f"{_FORMAT} {identity.st_dev} {identity.st_ino}"
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self._path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = NORMAL")
            # Words of forgotten executions must not stay in free pages.
            connection.execute("PRAGMA secure_delete = ON").fetchone()
            for statement in _SCHEMA:
                connection.execute(statement)
            row = connection.execute("SELECT value FROM state WHERE name = 'of'").fetchone()
            if row is None or row[0] != own:
                # Of another file, or of another format: begun anew.
                for chunk in _chunks(connection):
                    connection.execute(f"DROP TABLE words_{chunk}")
                connection.execute("DELETE FROM documents")
                connection.execute("DELETE FROM state")
                connection.execute("INSERT INTO state VALUES ('of', ?)", (own,))
            connection.execute("ATTACH ? AS ledger", (str(self._ledger),))
        except BaseException:
            connection.close()
            raise
        return connection


def _tables(connection: sqlite3.Connection) -> Tables:
    return Tables(connection, NoSeal(), MAX_EXECUTION_BYTES, SteadyClock())


def _chunks(db: sqlite3.Connection) -> list[int]:
    names = db.execute("SELECT name FROM main.sqlite_master WHERE name GLOB 'words_[0-9]*' AND sql LIKE '%fts5%'")
    return [int(name.removeprefix("words_")) for (name,) in names]


def _insert(db: sqlite3.Connection, documents: Sequence[tuple[int, str, str]]) -> None:
    for number, marks, body in documents:
        if db.execute("INSERT OR IGNORE INTO documents VALUES (?)", (number,)).rowcount:
            table = f"words_{number // _CHUNK}"
            db.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS main.{table} USING"
                " fts5(marks, body, content='', tokenize=\"unicode61 remove_diacritics 2\")"
            )
            db.execute(f"INSERT INTO {table} (rowid, marks, body) VALUES (?, ?, ?)", (number, marks, body))  # noqa: S608 - a number of ours


def _documents(tables: Tables, number: int, execution_id: str) -> list[tuple[int, str, str]]:
    """One, or none where the record is gone or damaged, which must not hold up the others."""
    try:
        history = tables.load(execution_id)
    except (sqlite3.DatabaseError, ValueError, LookupError, TypeError) as error:
        _log.warning("execution %r is not searched: its record cannot be read: %s", execution_id, error)
        return []
    return [] if history is None else [(number, " ".join(_marks_of(history)), document_of(history))]


def document_of(history: ExecutionHistory) -> str:
    """Text of a record as it is searched: names, program, calls with small values, output, errors; each text once."""
    document = _Document()
    start, outcome = history.start_record, history.outcome
    for text in (start.execution_id, start.title, *start.tags, start.user, start.conversation, start.model):
        document.add(text)
    document.add(start.program.sent_text, _DOCUMENT_CHARACTERS)
    if outcome is not None:
        for text in (outcome.stdout, outcome.stderr, "" if outcome.problem is None else outcome.problem.message):
            document.add(text)
        document.add_value(value_as_json(outcome.value))
    for entry in history.entries:
        if isinstance(entry, CallEntry):
            document.add_call(entry.call.tool, entry.call.arguments)
        elif isinstance(entry, ReplyEntry):
            document.add_call(entry.record.name, entry.record.arguments)
            document.add(entry.record.error or "")
            if entry.record.bytes_out <= _VALUE_CHARACTERS:
                document.add_value(value_as_json(entry.reply.value))
    return "\n".join(document.texts)


class _Document:
    def __init__(self) -> None:
        self.texts: dict[str, None] = {}
        self._room = _DOCUMENT_CHARACTERS

    def add(self, text: str, most: int = _VALUE_CHARACTERS) -> None:
        text = text[: min(most, self._room)]
        if text and text not in self.texts:
            self.texts[text] = None
            self._room -= len(text)

    def add_call(self, tool: str, arguments: Mapping[str, Value]) -> None:
        self.add(tool)
        self.add_value(value_as_json(dict(arguments)))

    # Any: a JSON value.
    def add_value(self, value: Any) -> None:
        if self._room <= 0:
            return
        if isinstance(value, Mapping):
            for key, part in value.items():
                self.add(str(key))
                self.add_value(part)
        elif isinstance(value, list | tuple):
            for part in value:
                self.add_value(part)
        elif value is not None and not isinstance(value, bool):
            self.add(str(value))


def _mark(text: str) -> str:
    return f"m{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"


def _marks_of(history: ExecutionHistory) -> list[str]:
    start, outcome = history.start_record, history.outcome
    pairs = {"tenant": start.tenant, "session": start.session, "interface": start.interface}
    calls = () if outcome is None else outcome.calls
    labels = [
        *labels_of(start), *(label(kind, value) for kind, value in pairs.items() if value),
        *(label("tool", use.tool) for use in uses_of(calls)),
        *(() if outcome is None else (label("status", outcome.status),)),
    ]  # fmt: skip
    return [_mark(text) for text in labels]


def _match_expression(query: ExecutionFilter) -> str:
    """Query of FTS5: each text of the caller's is a quoted string, so none of it is an operator."""
    parts = []
    for term, is_prefix in search_terms(query.words or ""):
        quoted = '"' + term.replace('"', '""').replace("\0", " ") + '"'
        if any(map(str.isalnum, term)):
            parts.append(f"body : {quoted}{' *' if is_prefix and term[-1].isalnum() else ''}")
    if not parts:
        return ""
    kinds = ("tenant", "session", "interface", "tool", "status")
    labels = [*filter_labels(query), *(label(kind, value) for kind in kinds if (value := getattr(query, kind)))]
    return " AND ".join([*parts, *(f'marks : "{_mark(text)}"' for text in labels)])


def reindex(path: Path, report: Callable[[int], None]) -> int:
    """Write the index of a ledger anew; the number of executions.

    Raises:
        UsageError: There is no such ledger, or no index can be written.
    """
    if not path.is_file():
        raise UsageError(f"no ledger {str(path)!r}; check the path")
    try:
        index = WordIndex(path)
        try:
            return index.reindex(report)
        finally:
            index.close()
    except sqlite3.Error as error:
        raise UsageError(f"ledger {str(path)!r} cannot be indexed: {error}; check its folder and its disk") from error
