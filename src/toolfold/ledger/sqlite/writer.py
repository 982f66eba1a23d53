"""Writer thread of a SQLite ledger: the queue of its work, its transactions, and retention between them.

1. What is handed over is written in the order in which it was handed over.
2. Entries wait a moment for company; whoever waits for a commit ends that moment for all.
3. One transaction holds everything that has gathered: a hundred waiters cost one commit.
4. A refusal concerns one execution; a failing disk concerns every execution in the transaction. Whoever waits
   hears of it; what nobody waits for is kept, up to a limit, and written in its order when the disk takes it again.
5. A job that fails for any other reason loses only itself: the others of its transaction are written without it.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from toolfold.errors import LedgerFailed, ToolfoldError
from toolfold.ledger import base
from toolfold.ledger.base import Retention, Schedule
from toolfold.ledger.sqlite.schema import BUSY_SECONDS
from toolfold.ledger.sqlite.tables import Tables
from toolfold.ledger.sqlite.write_ahead_log import LogBuffer, WriteAheadLog
from toolfold.models import MIB, CallRecord

_LINGER_SECONDS: Final = 0.05
_HURRY_BYTES: Final = 1 * MIB
_MAX_DEFERRED_BYTES: Final = 64 * MIB
"""Of entries, while the disk takes none; beyond that they are lost, and their executions say so."""
_RETRY_SECONDS: Final = 0.5
_DROWSY_ROUNDS: Final = 40
"""Without work, until the thread sleeps for good. Waking it costs the event loop more than a note does."""

_log = logging.getLogger("toolfold.ledger")


@dataclass(slots=True, eq=False)
class OpenRecord:
    """State of an execution that this process writes to."""

    id: str
    call_records: dict[int, CallRecord] = field(default_factory=dict)
    """The records that went into entries, so that the outcome need not repeat them."""
    is_own: bool = False
    """It began here and was never parked, so that no other process has a reason to take it over."""
    error: ToolfoldError | None = None
    """Why something that nobody waited for was not written."""
    is_lossy: bool = False
    """Entries were given up while the disk failed."""
    buffer: LogBuffer | None = None
    """Of an execution of its own: entries that can be made safe without a commit."""


Note: TypeAlias = tuple[OpenRecord, int, bytes]
"""Encoded entry and its epoch. A plain tuple: there are two of them in every tool call."""


# Any: the result of an action is between it and its waiter.
@dataclass(slots=True)
class WriteAction:
    """Anything else, done in its place in the order."""

    record: OpenRecord | None
    do: Callable[[Tables], Any]
    is_kept: bool = False
    """Tried again where the disk failed, whether or not somebody waited: the start and the end of an execution."""
    future: asyncio.Future[Any] | None = None
    """Gets the value or the error after the commit, in its event loop."""
    value: Any = None
    error: Exception | None = None


Job: TypeAlias = Note | WriteAction


class SqliteWriter:
    """Owns the connection that writes. Its thread starts with the first job."""

    def __init__(
        self, connection: sqlite3.Connection, tables: Tables, keep: Retention, write_ahead_log: WriteAheadLog
    ) -> None:
        self._db = connection
        self._tables = tables
        self._write_ahead_log = write_ahead_log
        self._sweeper = RetentionSweeper(connection, tables, keep, lambda: self._is_closing)
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._jobs_bytes = 0
        self._hurry = threading.Event()
        self._is_at_work = False
        """The thread is there and will look by itself; else it must be started or woken."""
        self._woken = threading.Event()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._is_failing = False

    def note(self, record: OpenRecord, epoch: int, body: bytes) -> None:
        with self._lock:
            self._jobs.append((record, epoch, body))
            self._jobs_bytes += len(body)
            if self._jobs_bytes > _HURRY_BYTES:
                self._hurry.set()
            if not self._is_at_work:
                self._wake()

    def submit(self, action: WriteAction) -> None:
        with self._lock:
            self._jobs.append(action)
            if action.future is not None:
                self._hurry.set()
            if not self._is_at_work:
                self._wake()

    async def wait(self, record: OpenRecord | None, do: Callable[[Tables], Any], *, is_kept: bool = False) -> Any:
        """Wait until an action is committed; raises its error, or that of a write before it."""
        future = asyncio.get_running_loop().create_future()
        self.submit(WriteAction(record, do, is_kept, future))
        return await future

    def close(self) -> None:
        """Write what has gathered, end the thread and close the connection. Blocks."""
        atexit.unregister(self.close)
        with self._lock:
            self._is_closing = True
            self._is_at_work = False
            self._hurry.set()
            self._woken.set()
        if self._thread is not None:
            self._thread.join()
        self._write_ahead_log.close(is_committed=not self._jobs)
        self._db.close()

    def disown(self) -> None:
        """In a forked child: write nothing when it ends."""
        atexit.unregister(self.close)
        self._write_ahead_log.disown()
        self._jobs = []

    def _wake(self) -> None:
        if self._is_closing:
            self._jobs.pop()
            raise base.closed_error()
        self._is_at_work = True
        if self._thread is not None:
            self._woken.set()
            return
        # A daemon, so that a program without `close` can end; the hook writes what is left even then.
        self._thread = threading.Thread(target=self._work, name="toolfold-ledger", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _work(self) -> None:
        idle_rounds = 0
        while True:
            self._hurry.wait(_RETRY_SECONDS if self._is_failing else _LINGER_SECONDS)
            with self._lock:
                jobs, self._jobs = self._jobs, []
                self._jobs_bytes = 0
                self._write_ahead_log.begin_commit()
                is_last = self._is_closing
                self._hurry.clear()
                idle_rounds = 0 if jobs else idle_rounds + 1
                is_sleepy = idle_rounds >= _DROWSY_ROUNDS and not is_last and not self._sweeper.is_over
                if is_sleepy:
                    self._is_at_work = False
                    self._woken.clear()
            if jobs:
                self._commit(jobs)
            self._sweeper.step(sum(isinstance(job, WriteAction) for job in jobs))
            if is_last:
                if self._jobs:
                    _log.error(
                        "the ledger was closed while it could not be written; %d writes are lost", len(self._jobs)
                    )
                return
            if is_sleepy:
                self._woken.wait()
                idle_rounds = 0

    def _commit(self, jobs: list[Job]) -> None:
        waiters = [job for job in jobs if isinstance(job, WriteAction) and job.future is not None]
        for apply in (self._apply, self._apply_separately):
            for waiter in waiters:
                waiter.value = waiter.error = None
            try:
                with self._tables.transaction():
                    apply(jobs)
            # Whatever it is, the thread must live on and every waiter must hear of it.
            except Exception as error:  # noqa: BLE001
                if _may_pass(error):
                    self._defer(jobs, error)
                    break
                failure = error
            else:
                self._write_ahead_log.end_commit()
                if self._is_failing:
                    self._is_failing = False
                    _log.warning("the ledger can be written again")
                break
        else:
            for job in jobs:
                self._lose(job, failure)
        _answer(waiters)

    def _defer(self, jobs: list[Job], error: Exception) -> None:
        """Keep the jobs, which the disk may take later. Waiters know that nothing was done, and try again."""
        failure = LedgerFailed(f"the ledger cannot be written: {error}; check its disk and its folder")
        failure.__cause__ = error
        deferred_jobs: list[Job] = []
        size = 0
        for job in jobs:
            if isinstance(job, tuple):
                record = job[0]
                size += len(job[2])
                if size <= _MAX_DEFERRED_BYTES:
                    deferred_jobs.append(job)
                elif not record.is_lossy:
                    record.is_lossy = True
                    deferred_jobs.append(WriteAction(record, lambda tables, lossy=record: tables.lose(lossy.id)))  # type: ignore[misc]
                continue
            job.error = failure
            if job.future is None or job.is_kept:
                deferred_jobs.append(WriteAction(job.record, job.do, job.is_kept))
        if not self._is_failing:
            _log.error("%s; %d writes are pending", failure, len(deferred_jobs))
        self._is_failing = True
        with self._lock:
            self._jobs[:0] = deferred_jobs

    def _lose(self, job: Job, error: Exception) -> None:
        record = job[0] if isinstance(job, tuple) else job.record
        failure = base.unrecordable_error(None if record is None else record.id, error)
        _log.error("%s", failure, exc_info=error)
        if record is not None and record.error is None:
            record.error = failure
        if isinstance(job, WriteAction):
            job.error = failure

    def _apply(self, jobs: list[Job]) -> None:
        bodies_by_record: dict[tuple[OpenRecord, int], list[bytes]] = {}
        for job in jobs:
            if isinstance(job, tuple):
                record, epoch, body = job
                bodies_by_record.setdefault((record, epoch), []).append(body)
                continue
            for key in [key for key in bodies_by_record if key[0] is job.record or job.record is None]:
                self._add(*key, bodies_by_record.pop(key))
            self._run_action(job)
        for key, bodies in bodies_by_record.items():
            self._add(*key, bodies)

    def _apply_separately(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._db.execute("SAVEPOINT job")
            try:
                self._apply([job])
                self._tables.write()
            # Whatever is wrong with it, the others go on.
            except Exception as error:
                if _may_pass(error):
                    raise
                self._tables.drop()
                self._db.execute("ROLLBACK TO job")
                self._lose(job, error)
            self._db.execute("RELEASE job")

    def _add(self, record: OpenRecord, epoch: int, bodies: list[bytes]) -> None:
        try:
            self._tables.add(record.id, epoch, bodies)
        except ToolfoldError as error:
            record.error = record.error or error
            _log.warning("%d entries were not written: %s", len(bodies), error)

    def _run_action(self, job: WriteAction) -> None:
        try:
            if job.record is not None and job.record.error is not None:
                raise job.record.error
            job.value = job.do(self._tables)
        except ToolfoldError as error:
            job.error = error
            if job.future is None and job.record is not None and job.record.error is None:
                job.record.error = error
                _log.warning("not written to the ledger: %s", error)


def _may_pass(error: Exception) -> bool:
    """Whether it is an error of the disk, not of what was to be written."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.DataError | sqlite3.NotSupportedError
    )


def _answer(waiters: list[WriteAction]) -> None:
    for loop in {waiter.future.get_loop() for waiter in waiters if waiter.future is not None}:
        try:
            loop.call_soon_threadsafe(_settle, loop, waiters)
        except RuntimeError:
            _log.debug("an event loop was closed before its writes were done")


def _settle(loop: asyncio.AbstractEventLoop, waiters: list[WriteAction]) -> None:
    for waiter in waiters:
        future = waiter.future
        if future is None or future.done() or future.get_loop() is not loop:
            continue
        if waiter.error is not None:
            future.set_exception(waiter.error)
        else:
            future.set_result(waiter.value)


# ----------------------------------------------------------------------------------------------------
# Retention of a SQLite ledger, kept by its writing thread in small steps between two commits.

_CLOSING_SECONDS: Final = 0.05
"""After so long a step stops where the ledger is being closed; what it did is still committed, which takes as long as
the disk does. Not less: commands that take a moment must get something done, too."""
_INSTRUCTIONS: Final = 10_000
"""Of SQLite's machine, between two looks at the clock: about a millisecond."""


class RetentionSweeper:
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

    def step(self, action_count: int) -> None:
        """Forget some of what is too old, if it is time, in a transaction of its own.

        One step in each round of the thread: in between, this and other processes can write.
        """
        size, self._tables.written_bytes = self._tables.written_bytes, 0
        self._schedule.record_write(size, action_count)
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
                _log.warning("old executions were not deleted: %s", error)
        finally:
            self._db.set_progress_handler(None, 0)
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
        if self.is_over:
            self._schedule.hasten()

    def _sweep(self) -> int:
        with self._tables.transaction():
            count = self._tables.sweep(self._keep, self._must_end)
            self._db.set_progress_handler(None, 0)  # what went is committed
        return count

    def _must_end(self) -> bool:
        return self._is_closing() and time.monotonic() > self._closing_until
