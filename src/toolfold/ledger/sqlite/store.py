"""The default ledger: one SQLite file, in WAL mode, shared by as many processes as open it.

A commit is safe against a kill of the process at once, and against a power cut after the next
checkpoint (`synchronous=NORMAL`); so is every reply that was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from toolfold import fork_safety
from toolfold.clocks import SteadyClock
from toolfold.errors import Fenced, LedgerFailed, ToolfoldError, UsageError
from toolfold.ledger import base, codec
from toolfold.ledger.base import (
    MAX_EXECUTION_BYTES,
    Change,
    Entry,
    Filter,
    Given,
    History,
    Retention,
    Sealed,
    StartRecord,
    Story,
    Summary,
)
from toolfold.ledger.encryption import Seal, seal_for_snapshots
from toolfold.ledger.listing import Saving, Use
from toolfold.ledger.sqlite.changes import is_cursor
from toolfold.ledger.sqlite.schema import connect, shared_lead
from toolfold.ledger.sqlite.tables import Tables
from toolfold.ledger.sqlite.write_ahead import Ahead, AheadFiles, Gathered, bring_in, found_beside, is_living, lock
from toolfold.ledger.sqlite.writer import Act, OpenRecord, Writer
from toolfold.models import Outcome
from toolfold.tools.learning import Lesson

_T = TypeVar("_T")
_LOOK_SECONDS: Final = 0.04
"""Between two looks of a follower: with the writer's own linger it makes a tenth of a second."""


class SqliteLedger:
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
        self, path: str | Path, *, keep: Retention | None = None, key: bytes | str | None = None,
        max_execution_bytes: int = MAX_EXECUTION_BYTES,
    ) -> None:  # fmt: skip
        self._keep = keep or Retention()
        self._snapshot_seal: Seal | None = None
        self._path = Path(path)
        writer, reader, seal = connect(self._path, key)
        self._identity = _identity(self._path)
        self._alone: int | None = None
        self._clock = SteadyClock(shared_lead(writer))
        tables = Tables(writer, seal, max_execution_bytes, self._clock)
        bring_in(self._path, writer, tables, seal)
        self._ahead = Ahead(self._path, seal, max_execution_bytes)
        self._writer = Writer(writer, tables, self._keep, self._ahead)
        self._seal = seal
        self._reader = reader
        self._read_tables = Tables(self._reader, seal, max_execution_bytes, self._clock)
        self._reads = threading.Lock()
        self._is_closed = False
        self._live: dict[str, OpenRecord] = {}
        fork_safety.watch(self)

    @property
    def is_sealed(self) -> bool:
        return isinstance(self._seal, Seal)

    @property
    def path(self) -> Path:
        """Of its file."""
        return self._path

    def disown(self) -> None:
        """In a forked child: what has gathered is the parent's to write, and SQLite forbids the rest."""
        self._writer.disown()
        fork_safety.inherit(self)

    def now(self) -> float:
        return self._clock.now()

    # gathered

    def begin(self, begun: StartRecord) -> None:
        if begun.execution_id in self._live:
            raise base.twice(begun.execution_id)
        self._ahead.open()
        live = self._live[begun.execution_id] = OpenRecord(
            begun.execution_id, is_own=True, gathered=Gathered(begun.execution_id, begun, self._ahead.mark)
        )
        owner = self._ahead.owner
        self._writer.submit(Act(live, lambda tables: tables.begin(begun, owner), is_kept=True))

    def note(self, execution_id: str, *entries: Entry, epoch: int = 0) -> None:
        live = self._live_of(execution_id)
        if isinstance(live.error, Fenced):
            raise live.error
        gathered = live.gathered
        for entry in entries:
            if isinstance(entry, Given):
                live.noted[entry.record.id] = entry.record
            body = codec.encode_entry(entry)
            self._writer.note(live, epoch, body)
            if gathered is not None:
                gathered.add(body)

    def learn(self, tenant: str, lesson: Lesson) -> None:
        self._writer.submit(Act(None, lambda tables: tables.lessons.add(tenant, lesson)))

    # waited for

    def secure(self, execution_id: str, *entries: Entry, epoch: int = 0) -> Awaitable[None] | None:
        self.note(execution_id, *entries, epoch=epoch)
        live = self._live[execution_id]
        gathered = live.gathered
        if gathered is not None and live.error is None and self._ahead.write(gathered):
            return None
        return self.flush(execution_id)

    async def flush(self, execution_id: str) -> None:
        gathered = self._live_of(execution_id).gathered
        if gathered is None:
            await self._wait(execution_id, lambda tables: tables.check(execution_id))
            return
        gathered.leave()
        gathered.waiting += 1
        mark = self._ahead.mark
        try:
            await self._wait(execution_id, lambda tables: tables.check(execution_id, epoch=0))
        finally:
            gathered.waiting -= 1
        # Nobody had taken it over by then, and whoever does so later makes another mark.
        gathered.mark = mark
        # While others wait, the entries between theirs and this one are in no commit yet.
        gathered.is_whole = not gathered.waiting

    async def park(self, execution_id: str, *, epoch: int = 0, snapshot: Sealed | None = None) -> None:
        await self._wait(execution_id, lambda tables: tables.park(execution_id, epoch, snapshot))
        # All of it is in the file now; whoever resumes it may be another process.
        self._live.pop(execution_id, None)

    async def accept(self, execution_id: str, entries: Sequence[Given], *, epoch: int = 0) -> None:
        bodies = [codec.encode_entry(entry) for entry in entries]
        self._live_of(execution_id).gathered = None  # these have no numbers
        await self._wait(execution_id, lambda tables: tables.accept(execution_id, epoch, bodies))

    async def takeover(self, execution_id: str) -> int:
        # What this process wrote under the old epoch goes first; its errors are of no interest any more.
        self._ahead.open()

        def do(tables: Tables) -> tuple[AheadFiles, int]:
            # Files are looked for in the transaction: an owner that committed before it has its file by now, and one
            # that commits after it is fenced.
            try:
                with self._others(mark=True) as others:
                    others.catch_up(tables, execution_id)
                    return others, tables.takeover(execution_id, self._ahead.owner)
            except OSError as error:
                raise base.not_taken_over(execution_id, error) from error

        others: AheadFiles
        epoch: int
        others, epoch = await self._writer.wait(None, do)
        others.remove()
        self._live[execution_id] = OpenRecord(execution_id)
        return epoch

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0, wait: bool = False) -> None:
        live = self._live_of(execution_id)
        # Now, where the caller may change what it is given; else by the thread, for which nobody waits.
        can_change = bool(outcome.calls) or isinstance(outcome.value, (dict, list))
        body = codec.encode_outcome(outcome, live.noted) if can_change else None

        def do(tables: Tables) -> None:
            tables.finish(execution_id, epoch, outcome, body or codec.encode_outcome(outcome, live.noted))

        try:
            if live.is_own and live.error is None and not wait:
                self._writer.submit(Act(live, do, is_kept=True))
            else:
                await self._wait(execution_id, do, is_kept=True)
        except LedgerFailed:
            # It is in the log, and is tried again; unless it is waited for, it must not cost the caller the outcome.
            if wait or self._is_closed:
                raise
        finally:
            self._live.pop(execution_id, None)

    async def sweep(self, keep: Retention | None = None) -> int:
        """Forget now what `keep`, or the ledger's own retention, does not allow; how many executions went."""
        gone = 0
        while swept := await self._writer.wait(None, lambda tables: tables.sweep(keep or self._keep)):
            gone += swept
        return gone

    async def delete(self, execution_id: str) -> bool:
        with self._others() as others:

            def do(tables: Tables) -> bool:
                others.catch_up(tables)  # or it would be back with the next start
                return tables.delete(execution_id)

            is_known: bool = await self._writer.wait(None, do)
            others.remove()
        self._live.pop(execution_id, None)
        return is_known

    # read

    async def load(self, execution_id: str) -> History | None:
        with self._others() as others:
            if others.has_left:
                await self._writer.wait(None, others.catch_up)
                others.remove()
            return await self._read(lambda tables: tables.load(execution_id, partial(others.missing, execution_id)))

    async def snapshot(self, execution_id: str) -> bytes | None:
        return await self._read(lambda tables: tables.snapshot(execution_id))

    def snapshot_seal(self) -> Seal | None:
        if self._snapshot_seal is None:
            self._snapshot_seal = seal_for_snapshots(self._seal)
        return self._snapshot_seal

    async def find(self, prefix: str, *, limit: int = 2) -> list[str]:
        return await self._read(lambda tables: tables.find(prefix, limit))

    async def list(self, *, limit: int = 50, before: float | None = None, tenant: str | None = None) -> list[Summary]:
        wanted = Filter(tenant=tenant, until=before)
        return await self._read(lambda tables: tables.listing.search(wanted, limit, ""))

    async def search(self, wanted: Filter, *, limit: int = 50, before: str = "") -> Sequence[Summary]:
        return await self._read(lambda tables: tables.listing.search(wanted, limit, before))

    async def story(self, execution_id: str, *, after: int = 0) -> Story | None:
        return await self._look(lambda tables: tables.story(execution_id, after))

    async def follow(self, after: str | None = None) -> AsyncIterator[Change]:
        if after is not None and not is_cursor(after):
            raise UsageError(f"invalid cursor {after!r}; take the one of the last change")
        cursor = await self._look(lambda tables: tables.changes.last()) if after is None else after
        if after is None:
            yield Change(cursor=cursor, execution_id="")
        while not self._is_closed:
            changes = await self._look(lambda tables, cursor=cursor: tables.changes.after(cursor))  # type: ignore[misc]
            for change in changes:
                yield change
                cursor = change.cursor
            if not changes:
                await asyncio.sleep(_LOOK_SECONDS)

    async def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        is_first: bool = await self._writer.wait(None, lambda tables: tables.decide(execution_id, epoch, call_id, body))
        return is_first

    async def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        return await self._look(lambda tables: tables.changes.decision(execution_id, epoch, call_id))

    async def is_abandoned(self, execution_id: str) -> bool:
        """Whether it runs on record, and its process is gone; false where that cannot be told."""
        owner = await self._look(lambda tables: tables.owner(execution_id))
        if not owner or owner == self._ahead.name or is_living(self._path, owner):
            return False
        # Asked again: its process may have written its end, and left, in between.
        return await self._look(lambda tables: tables.owner(execution_id)) == owner

    async def counts(self, since: float, tenant: str | None = None) -> dict[str, int]:
        """How many run, wait, and failed since then."""
        return await self._read(lambda tables: tables.listing.counts(since, tenant))

    async def savings(self, since: float, bucket: float, tenant: str | None = None) -> Sequence[Saving]:
        """By time and door: what stayed out of contexts, and what was lost."""
        return await self._read(lambda tables: tables.listing.savings(since, bucket, tenant))

    async def uses(self, limit: int, tenant: str | None = None) -> Sequence[tuple[float, Use]]:
        """What the last executions did with which tool."""
        return await self._read(lambda tables: list(tables.listing.uses(limit, tenant)))

    async def learned(self, tenant: str) -> Sequence[Lesson]:
        return await self._read(lambda tables: tables.lessons.of(tenant))

    async def is_there(self) -> bool:
        return _identity(self._path) == self._identity

    def hold_alone(self) -> None:
        """Be the only server of this file, until it is closed or the process ends. Commands may still use it.

        Raises:
            UsageError: Another one is.
        """
        if self._alone is None:
            self._alone = only_server(self._path, "name another file with --ledger FILE, or share one Redis")

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        # The last one to close empties the WAL, which a connection for reading cannot.
        with self._reads:
            self._reader.close()
        self._writer.close()
        if self._alone is not None:
            os.close(self._alone)
            self._alone = None

    def _live_of(self, execution_id: str) -> OpenRecord:
        live = self._live.get(execution_id)
        if live is None:
            live = self._live[execution_id] = OpenRecord(execution_id)
        return live

    def _others(self, *, mark: bool = False) -> AbstractContextManager[AheadFiles]:
        return found_beside(self._path, self._seal, self._ahead.name, mark=mark)

    async def _wait(self, execution_id: str, do: Callable[[Tables], None], *, is_kept: bool = False) -> None:
        try:
            await self._writer.wait(self._live_of(execution_id), do, is_kept=is_kept)
        except ToolfoldError as error:
            if isinstance(error, Fenced):
                # Nothing more is written from here, so nothing needs to be held.
                self._live.pop(execution_id, None)
            raise

    async def _read(self, query: Callable[[Tables], _T]) -> _T:
        if self._is_closed:
            raise base.closed()
        # A reader sees what was noted before it asked.
        await self._writer.wait(None, _nothing)
        return await self._look(query)

    async def _look(self, query: Callable[[Tables], _T]) -> _T:
        """What is committed by now."""
        if self._is_closed:
            raise base.closed()
        return await asyncio.to_thread(self._query, query)

    def _query(self, query: Callable[[Tables], _T]) -> _T:
        with self._reads:
            try:
                # One transaction: the row, its pieces and its grant are of one moment.
                self._reader.execute("BEGIN")
                return query(self._read_tables)
            except UnicodeEncodeError as error:
                raise base.invalid_text(error) from error
            except (sqlite3.Error, msgspec.MsgspecError, zlib.error, LookupError, TypeError) as error:
                raise LedgerFailed(f"the ledger cannot be read: {error}; a record in it is damaged") from error
            finally:
                with suppress(sqlite3.Error):  # said already
                    self._reader.execute("COMMIT")


def only_server(path: Path, next_step: str) -> int:
    """A handle that only one process has; closing it lets the next one in.

    Raises:
        UsageError: Another one has it, or its filesystem has no locks.
    """
    # A file of its own: closing a handle of the database's own file would end SQLite's locks on it.
    handle = os.open(path.with_name(f"{path.name}-serve"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        is_alone = lock(handle)
    except OSError as error:
        os.close(handle)
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(f"ledger {str(path)!r} cannot be locked: {reason}; put it on a local disk") from error
    if not is_alone:
        os.close(handle)
        raise UsageError(f"ledger {str(path)!r} is served by another process; {next_step}")
    return handle


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _nothing(_: Tables) -> None:
    """An act that only waits for those before it."""
