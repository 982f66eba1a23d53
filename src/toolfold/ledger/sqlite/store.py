"""Ledger in one SQLite file, the default: in WAL mode, shared by any number of processes.

A commit is safe against a kill of the process at once, and against a power cut after the next
checkpoint (`synchronous=NORMAL`); so is every reply that was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec

from toolfold import fork_safety
from toolfold.errors import Fenced, LedgerFailed, ToolfoldError, UsageError
from toolfold.file_locks import O_CLOEXEC, try_lock
from toolfold.ledger import base, codec
from toolfold.ledger.encryption import Seal, seal_for_snapshots
from toolfold.ledger.execution_summaries import Saving, ToolUse, as_text
from toolfold.ledger.sqlite.schema import connect, shared_lead
from toolfold.ledger.sqlite.tables import Tables, is_cursor
from toolfold.ledger.sqlite.write_ahead_log import LogBuffer, PeerLogs, WriteAheadLog, is_alive, recover_logs
from toolfold.ledger.sqlite.writer import OpenRecord, SqliteWriter, WriteAction
from toolfold.models import Outcome
from toolfold.steady_clock import SteadyClock
from toolfold.tools.learned_replies import Lesson

if TYPE_CHECKING:
    from toolfold.ledger.sqlite.word_index import WordIndex

_T = TypeVar("_T")
_log: Final = logging.getLogger("toolfold.ledger")
_LOOK_SECONDS: Final = 0.04
"""Between two looks of a follower: with the writer's own linger it makes a tenth of a second."""


class SqliteLedger(fork_safety.ProcessOwned):
    """A `Ledger` in one file.

    Args:
        path: Made if it is not there, for this user only.
        keep: What may stay; looked at now and then.
        key: Seals bodies: 32 bytes, or as text their base64 or a passphrase. The same each time.
        max_execution_bytes: What one execution may keep.

    Raises:
        UsageError: The file is no ledger, is from a newer toolfold, cannot be written, or has another key.
    """

    is_lasting = True

    def __init__(
        self, path: str | Path, *, keep: base.Retention | None = None, key: bytes | str | None = None,
        max_execution_bytes: int = base.MAX_EXECUTION_BYTES,
    ) -> None:  # fmt: skip
        self._keep = keep or base.Retention()
        self._snapshot_seal: Seal | None = None
        self._path = Path(path)
        writer, reader, seal = connect(self._path, key)
        self._file = self._path.stat()
        self._server_lock: int | None = None
        self._clock = SteadyClock(shared_lead(writer))
        tables = Tables(writer, seal, max_execution_bytes, self._clock)
        recover_logs(self._path, tables, seal)
        self._write_ahead_log = WriteAheadLog(self._path, seal, max_execution_bytes)
        self._writer = SqliteWriter(writer, tables, self._keep, self._write_ahead_log)
        self._seal = seal
        self._reader = reader
        self._read_tables = Tables(self._reader, seal, max_execution_bytes, self._clock)
        self._reads = threading.Lock()
        self._is_closed = False
        self._word_index: WordIndex | Literal[False] | None = False
        """`False`: not looked for yet."""
        self._records: dict[str, OpenRecord] = {}
        fork_safety.watch(self)

    @property
    def is_sealed(self) -> bool:
        return isinstance(self._seal, Seal)

    @property
    def path(self) -> Path:
        return self._path

    def disown(self) -> None:
        """Let go in a forked child: pending writes are the parent's, and SQLite forbids the rest."""
        self._writer.disown()

    def now(self) -> float:
        return self._clock.now()

    # gathered

    def begin(self, start_record: base.StartRecord) -> None:
        if self._is_inherited:  # not the call alone: each program passes here
            self._check_process()
        if start_record.execution_id in self._records:
            raise base.duplicate_error(start_record.execution_id)
        self._write_ahead_log.open()
        record = self._records[start_record.execution_id] = OpenRecord(
            start_record.execution_id,
            is_own=True,
            buffer=LogBuffer(start_record.execution_id, start_record, self._write_ahead_log.mark),
        )
        owner = self._write_ahead_log.owner
        self._writer.submit(WriteAction(record, lambda tables: tables.begin(start_record, owner), is_kept=True))

    def note(self, execution_id: str, *entries: base.Entry, epoch: int = 0) -> None:
        if self._is_inherited:  # not the call alone: each program passes here
            self._check_process()
        record = self._record_of(execution_id)
        if isinstance(record.error, Fenced):
            raise record.error
        buffer = record.buffer
        for entry in entries:
            if isinstance(entry, base.ReplyEntry):
                record.call_records[entry.record.id] = entry.record
        bodies = [codec.encode_entry(entry) for entry in entries]
        for body in bodies:
            self._writer.note(record, epoch, body)
        if buffer is not None:
            for body in bodies:
                buffer.add(body)

    def learn(self, tenant: str, lesson: Lesson) -> None:
        self._check_process()
        self._writer.submit(WriteAction(None, lambda tables: tables.lessons.add(tenant, lesson)))

    # waited for

    def secure(self, execution_id: str, *entries: base.Entry, epoch: int = 0) -> Awaitable[None] | None:
        self.note(execution_id, *entries, epoch=epoch)
        record = self._records[execution_id]
        buffer = record.buffer
        if buffer is not None and record.error is None and self._write_ahead_log.write(buffer):
            return None
        return self.flush(execution_id)

    async def flush(self, execution_id: str) -> None:
        buffer = self._record_of(execution_id).buffer
        if buffer is None:
            await self._wait(execution_id, lambda tables: tables.check(execution_id))
            return
        buffer.leave_to_commit()
        buffer.waiting += 1
        mark = self._write_ahead_log.mark
        try:
            await self._wait(execution_id, lambda tables: tables.check(execution_id, epoch=0))
        finally:
            buffer.waiting -= 1
        # Nobody had taken it over by then, and whoever does so later makes another mark.
        buffer.mark = mark
        # While others wait, the entries between theirs and this one are in no commit yet.
        buffer.is_whole = not buffer.waiting

    async def park(self, execution_id: str, *, epoch: int = 0, snapshot: base.SealedSnapshot | None = None) -> None:
        await self._wait(execution_id, lambda tables: tables.park(execution_id, epoch, snapshot))
        # All of it is in the file now; whoever resumes it may be another process.
        self._records.pop(execution_id, None)

    async def accept(self, execution_id: str, entries: Sequence[base.ReplyEntry], *, epoch: int = 0) -> None:
        bodies = [codec.encode_entry(entry) for entry in entries]
        self._record_of(execution_id).buffer = None  # these have no numbers
        await self._wait(execution_id, lambda tables: tables.accept(execution_id, epoch, bodies))

    async def takeover(self, execution_id: str) -> int:
        self._check_process()
        # What this process wrote under the old epoch goes first; its errors are of no interest any more.
        self._write_ahead_log.open()

        def do(tables: Tables) -> tuple[PeerLogs, int]:
            # Files are looked for in the transaction: an owner that committed before it has its file by now, and one
            # that commits after it is fenced.
            try:
                with self._open_peer_logs(mark=True) as peer_logs:
                    peer_logs.catch_up(tables, execution_id)
                    return peer_logs, tables.takeover(execution_id, self._write_ahead_log.owner)
            except OSError as error:
                raise base.takeover_error(execution_id, error) from error

        peer_logs, epoch = await self._writer.wait(None, do)
        peer_logs.remove()
        self._records[execution_id] = OpenRecord(execution_id)
        return int(epoch)

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0, wait: bool = False) -> None:
        if self._is_inherited:  # not the call alone: each program passes here
            self._check_process()
        record = self._record_of(execution_id)
        # Now, where the caller may change what it is given; else by the thread, for which nobody waits.
        can_change = bool(outcome.calls) or isinstance(outcome.value, (dict, list))
        body = codec.encode_outcome(outcome, record.call_records) if can_change else None

        def do(tables: Tables) -> None:
            tables.finish(execution_id, epoch, outcome, body or codec.encode_outcome(outcome, record.call_records))

        try:
            if record.is_own and record.error is None and not wait:
                self._writer.submit(WriteAction(record, do, is_kept=True))
            else:
                await self._wait(execution_id, do, is_kept=True)
        except LedgerFailed:
            # It is in the log, and is tried again; unless it is waited for, it must not cost the caller the outcome.
            if wait or self._is_closed:
                raise
        finally:
            self._records.pop(execution_id, None)

    async def sweep(self, keep: base.Retention | None = None) -> int:
        """Forget now what `keep`, or the ledger's own retention, does not allow; how many executions went."""
        self._check_process()
        count = 0
        while step_count := await self._writer.wait(None, lambda tables: tables.sweep(keep or self._keep)):
            count += step_count
        return count

    async def delete(self, execution_id: str) -> bool:
        with self._open_peer_logs() as peer_logs:

            def do(tables: Tables) -> bool:
                peer_logs.catch_up(tables)  # or it would be back with the next start
                return tables.delete(execution_id)

            is_known = await self._writer.wait(None, do)
            peer_logs.remove()
        self._records.pop(execution_id, None)
        return bool(is_known)

    # read

    async def load(self, execution_id: str) -> base.ExecutionHistory | None:
        with self._open_peer_logs() as peer_logs:
            if peer_logs.has_orphans:
                await self._writer.wait(None, peer_logs.catch_up)
                peer_logs.remove()
            return await self._read(
                lambda tables: tables.load(execution_id, partial(peer_logs.entries_after, execution_id))
            )

    async def snapshot(self, execution_id: str) -> bytes | None:
        return await self._read(lambda tables: tables.snapshot(execution_id))

    def snapshot_seal(self) -> Seal | None:
        if self._snapshot_seal is None:
            self._snapshot_seal = seal_for_snapshots(self._seal)
        return self._snapshot_seal

    async def find(self, prefix: str, *, limit: int = 2) -> list[str]:
        return await self._read(lambda tables: tables.find(prefix, limit))

    async def list(
        self, *, limit: int = 50, before: float | None = None, tenant: str | None = None
    ) -> list[base.ExecutionSummary]:
        query = base.ExecutionFilter(tenant=tenant, until=before)
        return await self._read(lambda tables: tables.listing.search(query, limit, ""))

    async def search(
        self, query: base.ExecutionFilter, *, limit: int = 50, before: str = ""
    ) -> Sequence[base.ExecutionSummary]:
        self._check_process()
        index = self.word_index() if query.words else None
        if index is not None:
            await self._writer.wait(None, lambda _: None)
            return await asyncio.to_thread(self._search_words, index, query, limit, before)
        plain_query = as_text(query)
        return await self._read(lambda tables: tables.listing.search(plain_query, limit, before))

    def _search_words(
        self, index: WordIndex, query: base.ExecutionFilter, limit: int, before: str
    ) -> Sequence[base.ExecutionSummary]:
        try:
            return index.search(query, limit, before)
        except sqlite3.Error as error:
            raise LedgerFailed(
                f"the search index of the ledger cannot be read: {error}; make it anew with 'toolfold ledger reindex'"
            ) from error

    def word_index(self) -> WordIndex | None:
        """The index of all words, opened with the first look; `None` where there is none: see `docs/console.md`."""
        if self._word_index is False:
            self._word_index = None
            if not self.is_sealed:
                # Imported here: every run opens a ledger, and hardly any searches it.
                from toolfold.ledger.sqlite.word_index import WordIndex  # noqa: PLC0415

                try:
                    self._word_index = WordIndex(self._path)
                except (sqlite3.Error, OSError) as error:
                    _log.warning("the ledger has no search index, so that only first lines are searched: %s", error)
        return self._word_index or None

    async def story(self, execution_id: str, *, after: int = 0) -> base.Story | None:
        return await self._look(lambda tables: tables.story(execution_id, after))

    async def follow(self, after: str | None = None) -> AsyncIterator[base.LedgerChange]:
        if after is not None and not is_cursor(after):
            raise UsageError(f"invalid cursor {after!r}; take the one of the last change")
        cursor = await self._look(lambda tables: tables.changes.last()) if after is None else after
        if after is None:
            yield base.LedgerChange(cursor=cursor, execution_id="")
        while not self._is_closed:
            changes = await self._look(lambda tables, cursor=cursor: tables.changes.after(cursor))  # type: ignore[misc]
            for change in changes:
                yield change
                cursor = change.cursor
            if not changes:
                await asyncio.sleep(_LOOK_SECONDS)

    async def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        self._check_process()
        return bool(await self._writer.wait(None, lambda tables: tables.decide(execution_id, epoch, call_id, body)))

    async def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        return await self._look(lambda tables: tables.decision(execution_id, epoch, call_id))

    async def is_abandoned(self, execution_id: str) -> bool:
        """Whether it runs on record, and its process is gone; false where that cannot be told."""
        owner = await self._look(lambda tables: tables.owner(execution_id))
        if not owner or owner == self._write_ahead_log.name or is_alive(self._path, owner):
            return False
        # Asked again: its process may have written its end, and left, in between.
        return await self._look(lambda tables: tables.owner(execution_id)) == owner

    async def counts(self, since: float, tenant: str | None = None) -> dict[str, int]:
        return await self._read(lambda tables: tables.listing.counts(since, tenant))

    async def savings(self, since: float, bucket: float, tenant: str | None = None) -> Sequence[Saving]:
        return await self._read(lambda tables: tables.listing.savings(since, bucket, tenant))

    async def uses(self, limit: int, tenant: str | None = None) -> Sequence[tuple[float, ToolUse]]:
        return await self._read(lambda tables: list(tables.listing.uses(limit, tenant)))

    async def learned(self, tenant: str) -> Sequence[Lesson]:
        return await self._read(lambda tables: tables.lessons.for_tenant(tenant))

    async def is_there(self) -> bool:
        try:
            return os.path.samestat(self._file, self._path.stat())
        except OSError:
            return False

    def hold_alone(self) -> None:
        """Be the only server of this file, until it is closed or the process ends. Commands may still use it.

        Raises:
            UsageError: Another one is.
        """
        if self._server_lock is None:
            self._server_lock = lock_for_server(self._path, "name another file with --ledger FILE, or share one Redis")

    async def close(self) -> None:
        if not self._is_closed and not self._is_inherited:
            self._is_closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        # The last one to close empties the WAL, which a connection for reading cannot.
        if self._word_index:
            self._word_index.close()
        with self._reads:
            self._reader.close()
        self._writer.close()
        if self._server_lock is not None:
            os.close(self._server_lock)
            self._server_lock = None

    def _record_of(self, execution_id: str) -> OpenRecord:
        record = self._records.get(execution_id)
        if record is None:
            record = self._records[execution_id] = OpenRecord(execution_id)
        return record

    def _open_peer_logs(self, *, mark: bool = False) -> PeerLogs:
        self._check_process()
        return PeerLogs(self._path, self._seal, self._write_ahead_log.name, mark=mark)

    async def _wait(self, execution_id: str, do: Callable[[Tables], None], *, is_kept: bool = False) -> None:
        self._check_process()
        try:
            await self._writer.wait(self._record_of(execution_id), do, is_kept=is_kept)
        except ToolfoldError as error:
            if isinstance(error, Fenced):
                # Nothing more is written from here, so nothing needs to be held.
                self._records.pop(execution_id, None)
            raise

    async def _read(self, query: Callable[[Tables], _T]) -> _T:
        self._check_process()
        if self._is_closed:
            raise base.closed_error()
        # A reader sees what was noted before it asked.
        await self._writer.wait(None, lambda _: None)
        return await self._look(query)

    async def _look(self, query: Callable[[Tables], _T]) -> _T:
        """Query what is committed by now."""
        self._check_process()
        if self._is_closed:
            raise base.closed_error()
        return await asyncio.to_thread(self._query, query)

    def _query(self, query: Callable[[Tables], _T]) -> _T:
        with self._reads:
            try:
                # One transaction: the row, its pieces and its grant are of one moment.
                self._reader.execute("BEGIN")
                return query(self._read_tables)
            except UnicodeEncodeError as error:
                raise base.invalid_text_error(error) from error
            except (sqlite3.Error, msgspec.MsgspecError, zlib.error, LookupError, TypeError) as error:
                raise LedgerFailed(f"the ledger cannot be read: {error}; a record in it is damaged") from error
            finally:
                with suppress(sqlite3.Error):  # said already
                    self._reader.execute("COMMIT")


def lock_for_server(path: Path, next_step: str) -> int:
    """A handle that only one process has; closing it lets the next one in.

    Raises:
        UsageError: Another one has it, or its filesystem has no locks.
    """
    # A file of its own: closing a handle of the database's own file would end SQLite's locks on it.
    handle = os.open(path.with_name(f"{path.name}-serve"), os.O_RDWR | os.O_CREAT | O_CLOEXEC, 0o600)
    try:
        if try_lock(handle):
            return handle
        refusal = f"ledger {str(path)!r} is served by another process; {next_step}"
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        refusal = f"ledger {str(path)!r} cannot be locked: {reason}; put it on a local disk"
    os.close(handle)
    raise UsageError(refusal)
