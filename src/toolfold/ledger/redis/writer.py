"""Writer task of a Redis ledger: gathers, sends in pipelines, and finds out what became of each write.

1. One execution has at most one write on its way; a write holds all that has gathered for it, or nothing of it.
2. Entries wait a moment for company; whoever waits for a write ends that moment for all.
3. A write without an answer is in doubt. Before the next one the server is asked, and told to refuse it if
   it comes late: nothing is written twice, and nothing that failed is written later.
4. What nobody waits for is kept while the server is away, and sent when it is back.
5. What cannot be written for a reason of its own is refused, and concerns its execution only.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, TypeAlias

from redis.exceptions import BusyLoadingError, RedisError
from redis.exceptions import ConnectionError as ConnectionLost

from toolfold.errors import Fenced, LedgerFailed, ToolfoldError
from toolfold.ledger import base
from toolfold.ledger.base import Retention, StartRecord
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.redis import lua_scripts
from toolfold.ledger.redis.connection import server_failure
from toolfold.ledger.redis.write_commands import Composer, Job, RedisRecord, Write, refusal, update_record
from toolfold.models import CallRecord

# Any: what the server answers is between a script and whoever sent it.
Send: TypeAlias = Callable[[Sequence[tuple[str, Sequence[Any]]]], Awaitable[Sequence[Any]]]
"""Runs scripts with their arguments in one go; an answer may be an exception."""

_LINGER_SECONDS: Final = 0.05
_AWAY_SECONDS: Final = 1.0
_AT_ONCE: Final = 100
_REMEMBERED: Final = 4096

log = logging.getLogger("toolfold.ledger")


class RedisWriter:
    """Owns what has gathered. `send` is how it reaches the server; its task runs while there is work."""

    def __init__(
        self, send: Send, seal: Seal | NoSeal, keep: Retention, max_bytes: int,
        on_write: Callable[[int, int], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._send = send
        self._composer = Composer(seal, keep, max_bytes, self.name)
        self.max_bytes = max_bytes
        self._on_write = on_write
        self._records: dict[str, RedisRecord] = {}
        self._dirty: dict[RedisRecord, None] = {}
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_away = False
        """Said in the log already."""
        self._own_name = secrets.token_hex(6)
        self._on_lease: Callable[[Write], None] | None = None
        """Told of every write that is done."""
        self._numbers = count(1)

    # handed over

    def begin(self, start_record: StartRecord) -> None:
        """A new execution; whether its id is new is known when it is written."""
        if start_record.execution_id in self._records:
            raise base.duplicate_error(start_record.execution_id)
        record = RedisRecord(
            start_record.execution_id, mark=self.name(), start_record=start_record, epoch=0, is_own=True
        )
        self._records[record.id] = record
        self._mark_dirty(record)

    def note(self, execution_id: str, epoch: int, bodies: Sequence[bytes], call_records: Sequence[CallRecord]) -> None:
        """Entries, encoded, and the records among them."""
        record = self.record(execution_id)
        if record.epoch not in (None, epoch):
            raise base.fenced_error(execution_id)
        if record.error is not None:
            if isinstance(record.error, Fenced):
                raise record.error
            return
        record.call_records.update((call_record.id, call_record) for call_record in call_records)
        for body in bodies:
            # One past the limit is enough to mark it as full; a server that is away must not cost memory.
            if record.entry_bytes <= self.max_bytes:
                record.entries.append((epoch, body))
                record.entry_bytes += len(body)
        self._mark_dirty(record)

    def submit(self, record: RedisRecord, job: Job) -> None:
        """Queue a job behind the entries, without waiting for it."""
        record.jobs.append(job)
        if job.waiter is not None:
            self._hurry.set()
        self._mark_dirty(record)

    async def wait(self, execution_id: str, job: Job) -> None:
        """Do this after what has gathered.

        Raises:
            ToolfoldError: Why it was not written.
        """
        job.waiter = asyncio.get_running_loop().create_future()
        self.submit(self.record(execution_id), job)
        await job.waiter

    async def drain(self, execution_id: str | None = None) -> None:
        """Write what has gathered for one execution, or for all.

        Raises:
            LedgerFailed: The server is away.
        """
        records = [record for record in self._dirty if execution_id in (None, record.id)]
        jobs = [Job("drain", 0, asyncio.get_running_loop().create_future()) for _ in records]
        for record, job in zip(records, jobs, strict=True):
            self.submit(record, job)
        for error in await asyncio.gather(*(job.waiter for job in jobs if job.waiter), return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    def record(self, execution_id: str) -> RedisRecord:
        """State of an execution; empty where it is new here."""
        record = self._records.get(execution_id)
        if record is None:
            record = self._records[execution_id] = RedisRecord(execution_id)
        return record

    def replace_record(self, record: RedisRecord) -> None:
        """Replace the state of an execution that was taken over."""
        self._records[record.id] = record

    def hold_leases(self, owner: str, milliseconds: int, on_lease: Callable[[Write], None]) -> None:
        """Every write from now on also holds the lease of its execution, or ends it with the execution."""
        self._composer.lease = (owner, milliseconds)
        self._on_lease = on_lease

    def name(self) -> str:
        """Unique name for a write."""
        return f"{self._own_name}{next(self._numbers):x}"

    def rebind(self) -> None:
        """Another event loop took over; the task of the last one went with it."""
        self._hurry = asyncio.Event()
        self._task = None

    async def stop(self) -> int:
        """End the task; how many executions have something left that could not be written."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        return sum(record.has_content or bool(record.jobs) for record in self._dirty)

    # the task

    def _mark_dirty(self, record: RedisRecord) -> None:
        self._dirty[record] = None
        if self._task is None:
            # Without a loop it goes out with the first thing that is waited for.
            with suppress(RuntimeError):
                loop = asyncio.get_running_loop()
                self._task = loop.create_task(self._work(), name="toolfold-ledger")

    async def _work(self) -> None:
        pause = _LINGER_SECONDS
        while self._dirty:
            if not self._hurry.is_set():
                # Not `wait_for`: in Python 3.11 that returns what came together with a cancellation.
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._hurry.wait()
            self._hurry.clear()
            records = list(self._dirty)[:_AT_ONCE]
            pause = _LINGER_SECONDS if await self._try(records) else _AWAY_SECONDS
            for record in records:
                self._dirty.pop(record, None)
                if record.jobs or (record.error is None and record.has_content):
                    # At the end, so that everyone has a turn.
                    self._dirty[record] = None
            if any(job.waiter for record in self._dirty for job in record.jobs):
                self._hurry.set()
        self._task = None

    async def _try(self, records: Sequence[RedisRecord]) -> bool:
        for is_last in (False, True):
            try:
                await self._round(records)
            except RedisError as error:
                # An idle connection may have been closed since; who cannot connect anew hears it at once.
                if not is_last and isinstance(error, ConnectionLost) and not isinstance(error, BusyLoadingError):
                    continue
                self._fail(records, server_failure(error))
                self._is_away = True
                return False
            # Whatever it is, the task must live on and every waiter must hear of it.
            except Exception as error:
                if len(records) > 1:
                    # One by one: what cannot be written then loses only itself. Writes that arrived are in doubt,
                    # and the server is asked about them first.
                    return all([await self._try([record]) for record in records])
                log.exception("a write to the ledger failed")
                self._refuse(records[0], base.unrecordable_error(records[0].id, error))
                return True
            break
        self._is_away = False
        return True

    async def _round(self, records: Sequence[RedisRecord]) -> None:
        unsettled_records = [
            record for record in records if record.error is None and (record.epoch is None or record.doubt is not None)
        ]
        if unsettled_records:
            looks = [
                (lua_scripts.LOOK, (record.id, record.doubt.name if record.doubt else "", record.last, self.name()))
                for record in unsettled_records
            ]
            for record, answer in zip(unsettled_records, await self._send(looks), strict=True):
                self._apply_look(record, answer)
        writes = [write for record in records if (write := await self._compose(record)) is not None]
        if not writes:
            return
        for write in writes:
            write.previous, write.record.doubt = write.record.doubt, write
        answers = await self._send([(lua_scripts.WRITE, write.arguments) for write in writes])
        for write, answer in zip(writes, answers, strict=True):
            self._settle(write, answer)
        for answer in answers:
            if isinstance(answer, RedisError):
                raise answer
        await self._on_write(sum(write.size_bytes for write in writes), sum(bool(write.granted) for write in writes))

    def _apply_look(self, record: RedisRecord, answer: Any) -> None:
        if isinstance(answer, RedisError):
            raise answer
        if answer[0] == b"unknown" and record.start_record is not None:
            return
        if error := refusal(record.id, answer[0]):
            self._refuse(record, error)
            return
        if answer[0] == b"written" and record.doubt is not None:
            self._confirm_write(record.doubt)
        record.doubt = None
        update_record(record, answer)

    def _confirm_write(self, write: Write) -> None:
        """It is written, whether or not we were told so at once: nothing of it is to be sent again."""
        record, job = write.record, write.job
        if self._on_lease is not None:
            self._on_lease(write)
        record.start_record = None
        record.drop_entries(write.entries)
        if job is None:
            return
        if job.kind in ("park", "accept"):
            # Another process may go on with it from here.
            record.accepted, record.is_own = None, False
            record.call_records.clear()
        if job.kind == "accept" and write.refusal is None and (job.waiter is None or job.waiter.done()):
            record.accepted = job
        if record.jobs and record.jobs[0] is job:
            answer_job(record.jobs.popleft(), write.refusal)
            if job.kind == "finish":
                self._drop(record)

    def _settle(self, write: Write, answer: Any) -> None:
        record = write.record
        match answer:
            case b"ok":
                record.doubt = None
                record.last, record.pieces, record.is_full = write.name, write.pieces, write.is_full
                record.size_bytes += write.size_bytes
                if write.granted:
                    self._composer.grants.server_digests.add(write.granted)
                self._confirm_write(write)
                if len(self._records) > _REMEMBERED and not (
                    record.is_own or record.jobs or record.entries or record.accepted
                ):
                    self._drop(record)
            case b"grant":
                record.doubt = None
                self._composer.grants.server_digests.discard(write.granted)
            case b"doubt":
                record.doubt = write.previous
            case RedisError():
                return
            case _:
                self._refuse(record, refusal(record.id, answer) or base.fenced_error(record.id))

    def _drop(self, record: RedisRecord) -> None:
        if self._records.get(record.id) is record:
            del self._records[record.id]
        self._dirty.pop(record, None)
        jobs, record.jobs = record.jobs, deque()
        record.drop_entries()
        for job in jobs:
            if job.kind == "drain":
                answer_job(job, None)
            else:
                self.submit(self.record(record.id), job)

    def _refuse(self, record: RedisRecord, error: ToolfoldError) -> None:
        """Write nothing more of this execution, and tell whoever asks next why."""
        is_news = record.error is None
        record.error, record.doubt, record.start_record = error, None, None
        record.drop_entries()
        jobs, record.jobs = record.jobs, deque()
        for job in jobs:
            answer_job(job, None if job.kind == "drain" else error)
        is_heard = any(job.kind != "drain" and job.waiter for job in jobs)
        if is_news and not is_heard:
            log.warning("not written to the ledger: %s", error)
        # A start that was never written is remembered up to its end, for which it would be an unknown execution.
        if any(job.kind == "finish" for job in jobs) or (is_heard and not isinstance(error, LedgerFailed)):
            self._drop(record)

    def _fail(self, records: Sequence[RedisRecord], failure: LedgerFailed) -> None:
        """Tell all who wait that the server is away; keep the rest for later."""
        for record in records:
            jobs, record.jobs = record.jobs, deque()
            for job in jobs:
                answer_job(job, failure)
                if job.kind == "finish":
                    job.waiter = None
                    record.jobs.append(job)
        if not self._is_away:
            log.error("%s; %d executions wait to be written", failure, len(self._dirty))

    async def _compose(self, record: RedisRecord) -> Write | None:
        """All that has gathered and the first job as one step; `None` where there is nothing to send."""
        if record.error is not None:
            if record.jobs:
                self._refuse(record, record.error)
            return None
        if any(epoch != record.epoch for epoch, _ in record.entries):
            self._refuse(record, base.fenced_error(record.id))
            return None
        job = record.jobs[0] if record.jobs else None
        if self._is_answered(record, job) if job else not record.has_content:
            return None
        return await self._composer.write(record, job)

    def _is_answered(self, record: RedisRecord, job: Job) -> bool:
        """Whether a job needs no write, or may have none."""
        error: ToolfoldError | None = None
        if job.kind != "finish" and job.waiter is not None and job.waiter.cancelled():
            # Its caller left before anything of it was sent.
            pass
        elif job.kind in ("drain", "flush"):
            if record.has_content:
                return False
            if job.kind == "flush" and record.is_full:
                error = base.full_error(record.id, self.max_bytes)
        elif job.epoch != record.epoch:
            error = base.fenced_error(record.id)
        elif job.kind == "accept" and record.accepted is not None:
            if job.encoded_replies == record.accepted.encoded_replies:
                record.accepted = None
            else:
                error = base.fenced_error(record.id)
        else:
            return False
        record.jobs.popleft()
        answer_job(job, error)
        return True


def answer_job(job: Job, error: ToolfoldError | None) -> None:
    if job.waiter is None or job.waiter.done():
        return
    if error is None:
        job.waiter.set_result(None)
    else:
        job.waiter.set_exception(error)
