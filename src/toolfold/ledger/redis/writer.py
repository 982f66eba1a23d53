"""The one task that writes to a Redis ledger: gathers, sends in pipelines, and finds out what became of it.

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
from toolfold.ledger.redis import scripts
from toolfold.ledger.redis.connect import failed
from toolfold.ledger.redis.writes import Composer, Job, RedisRecord, Write, know
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
        self, send: Send, prefix: str, seal: Seal | NoSeal, keep: Retention, max_bytes: int,
        wrote: Callable[[int, int], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._send = send
        self._prefix = prefix
        self._composer = Composer(prefix, seal, keep, max_bytes, self.name)
        self.max_bytes = max_bytes
        self._wrote = wrote
        self._lives: dict[str, RedisRecord] = {}
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

    def begin(self, begun: StartRecord) -> None:
        """A new execution; whether its id is new is known when it is written."""
        if begun.execution_id in self._lives:
            raise base.twice(begun.execution_id)
        live = RedisRecord(begun.execution_id, mark=self.name(), start_record=begun, epoch=0, is_own=True)
        self._lives[live.id] = live
        self._soil(live)

    def note(self, execution_id: str, epoch: int, bodies: Sequence[bytes], records: Sequence[CallRecord]) -> None:
        """Entries, encoded, and the records among them."""
        live = self.live(execution_id)
        if live.epoch not in (None, epoch):
            raise base.fenced(execution_id)
        if live.error is not None:
            if isinstance(live.error, Fenced):
                raise live.error
            return
        live.noted.update((record.id, record) for record in records)
        for body in bodies:
            # One past the limit is enough to mark it as full; a server that is away must not cost memory.
            if live.gathered.size_bytes <= self.max_bytes:
                live.gathered.add(epoch, body)
        self._soil(live)

    def submit(self, live: RedisRecord, job: Job) -> None:
        """Do this after what has gathered, without waiting for it."""
        live.jobs.append(job)
        if job.waiter is not None:
            self._hurry.set()
        self._soil(live)

    async def wait(self, execution_id: str, job: Job) -> None:
        """Do this after what has gathered.

        Raises:
            ToolfoldError: Why it was not written.
        """
        job.waiter = asyncio.get_running_loop().create_future()
        self.submit(self.live(execution_id), job)
        await job.waiter

    async def drain(self, execution_id: str | None = None) -> None:
        """Write what has gathered for one execution, or for all.

        Raises:
            LedgerFailed: The server is away.
        """
        lives = [live for live in self._dirty if execution_id in (None, live.id)]
        jobs = [Job("drain", 0, asyncio.get_running_loop().create_future()) for _ in lives]
        for live, job in zip(lives, jobs, strict=True):
            self.submit(live, job)
        for error in await asyncio.gather(*(job.waiter for job in jobs if job.waiter), return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    def live(self, execution_id: str) -> RedisRecord:
        """What is held of an execution; nothing yet where it is new here."""
        live = self._lives.get(execution_id)
        if live is None:
            live = self._lives[execution_id] = RedisRecord(execution_id)
        return live

    def hold(self, live: RedisRecord) -> None:
        """This is what is known of an execution now; what was known before is void."""
        self._lives[live.id] = live

    def hold_leases(self, owner: str, milliseconds: int, on_lease: Callable[[Write], None]) -> None:
        """Every write from now on also holds the lease of its execution, or ends it with the execution."""
        self._composer.lease = (owner, milliseconds)
        self._on_lease = on_lease

    def name(self) -> str:
        """A name that no write had before."""
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
        return sum(bool(live.start_record or live.gathered or live.jobs) for live in self._dirty)

    # the task

    def _soil(self, live: RedisRecord) -> None:
        self._dirty[live] = None
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
            lives = list(self._dirty)[:_AT_ONCE]
            pause = _LINGER_SECONDS if await self._try(lives) else _AWAY_SECONDS
            for live in lives:
                self._dirty.pop(live, None)
                if live.jobs or (live.error is None and (live.start_record or live.gathered)):
                    # At the end, so that everyone has a turn.
                    self._dirty[live] = None
            if any(job.waiter for live in self._dirty for job in live.jobs):
                self._hurry.set()
        self._task = None

    async def _try(self, lives: Sequence[RedisRecord]) -> bool:
        for is_last in (False, True):
            try:
                await self._round(lives)
            except RedisError as error:
                # An idle connection may have been closed since; who cannot connect anew hears it at once.
                if not is_last and isinstance(error, ConnectionLost) and not isinstance(error, BusyLoadingError):
                    continue
                self._fail(lives, failed(error))
                self._is_away = True
                return False
            # Whatever it is, the task must live on and every waiter must hear of it.
            except Exception as error:
                if len(lives) > 1:
                    # One by one: what cannot be written then loses only itself. Writes that arrived are in doubt,
                    # and the server is asked about them first.
                    return all([await self._try([live]) for live in lives])
                log.exception("a write to the ledger went wrong")
                self._refuse(lives[0], base.unrecordable(lives[0].id, error))
                return True
            break
        self._is_away = False
        return True

    async def _round(self, lives: Sequence[RedisRecord]) -> None:
        asked = [live for live in lives if live.error is None and (live.epoch is None or live.doubt is not None)]
        if asked:
            looks = [(scripts.LOOK, self._look(live)) for live in asked]
            for live, answer in zip(asked, await self._send(looks), strict=True):
                self._learn(live, answer)
        writes = [write for live in lives if (write := await self._compose(live)) is not None]
        if not writes:
            return
        for write in writes:
            write.earlier, write.live.doubt = write.live.doubt, write
        answers = await self._send([(scripts.WRITE, write.arguments) for write in writes])
        for write, answer in zip(writes, answers, strict=True):
            self._settle(write, answer)
        for answer in answers:
            if isinstance(answer, RedisError):
                raise answer
        await self._wrote(sum(write.size_bytes for write in writes), sum(bool(write.granted) for write in writes))

    def _look(self, live: RedisRecord) -> list[Any]:
        doubted = "" if live.doubt is None else live.doubt.name
        return [self._prefix, live.id, doubted, live.last, self.name()]

    def _learn(self, live: RedisRecord, answer: Any) -> None:
        if isinstance(answer, RedisError):
            raise answer
        match answer[0]:
            case b"unknown" if live.start_record is not None:
                return
            case b"unknown":
                self._refuse(live, base.unknown(live.id))
            case b"fenced":
                self._refuse(live, base.fenced(live.id))
            case found:
                if found == b"written" and live.doubt is not None:
                    self._reached(live.doubt)
                live.doubt = None
                know(live, answer)

    def _reached(self, write: Write) -> None:
        """It is written, whether or not we were told so at once."""
        if self._on_lease is not None:
            self._on_lease(write)
        if write.job is not None and write.job.act in ("park", "accept"):
            # Another process may go on with it from here.
            write.live.accepted, write.live.is_own = None, False
            write.live.noted.clear()
        self._take_off(write)

    def _take_off(self, write: Write) -> None:
        """It is written: nothing of it is to be sent again."""
        live = write.live
        live.start_record = None
        live.gathered.drop(write.entries)
        job = write.job
        if job is None:
            return
        if job.act == "accept" and write.refusal is None and (job.waiter is None or job.waiter.done()):
            live.accepted = job
        if live.jobs and live.jobs[0] is job:
            answer_job(live.jobs.popleft(), write.refusal)
            if job.act == "finish":
                self._drop(live)

    def _settle(self, write: Write, answer: Any) -> None:
        live = write.live
        match answer:
            case b"ok":
                live.doubt = None
                live.last, live.pieces, live.is_full = write.name, write.pieces, write.is_full
                live.size_bytes += write.size_bytes
                self._composer.grants.sent(write.granted)
                self._reached(write)
                if len(self._lives) > _REMEMBERED and not (live.is_own or live.jobs or live.gathered or live.accepted):
                    self._drop(live)
            case b"grant":
                live.doubt = None
                self._composer.grants.missing(write.granted)
            case b"doubt":
                live.doubt = write.earlier
            case RedisError():
                return
            case _:
                self._refuse(live, self._refusal(live.id, answer))

    def _refusal(self, execution_id: str, answer: Any) -> ToolfoldError:
        match answer:
            case b"unknown":
                return base.unknown(execution_id)
            case b"ended":
                return base.ended(execution_id)
            case b"twice":
                return base.twice(execution_id)
            case b"key":
                return LedgerFailed("the ledger has another key now, or lost its records; open it again")
            case _:
                return base.fenced(execution_id)

    def _drop(self, live: RedisRecord) -> None:
        if self._lives.get(live.id) is live:
            del self._lives[live.id]
        self._dirty.pop(live, None)
        jobs, live.jobs = live.jobs, deque()
        live.gathered.clear()
        for job in jobs:
            if job.act == "drain":
                answer_job(job, None)
            else:
                self.submit(self.live(live.id), job)

    def _refuse(self, live: RedisRecord, error: ToolfoldError) -> None:
        """Nothing more of this execution is written from here; whoever asks next is told why."""
        is_news = live.error is None
        live.error, live.doubt, live.start_record = error, None, None
        live.gathered.clear()
        jobs, live.jobs = live.jobs, deque()
        for job in jobs:
            answer_job(job, None if job.act == "drain" else error)
        is_heard = any(job.act != "drain" and job.waiter for job in jobs)
        if is_news and not is_heard:
            log.warning("not written: %s", error)
        # A start that was never written is remembered up to its end, for which it would be an unknown execution.
        if any(job.act == "finish" for job in jobs) or (is_heard and not isinstance(error, LedgerFailed)):
            self._drop(live)

    def _fail(self, lives: Sequence[RedisRecord], failure: LedgerFailed) -> None:
        """The server is away: whoever waits hears it, all else is kept for later."""
        for live in lives:
            jobs, live.jobs = live.jobs, deque()
            for job in jobs:
                answer_job(job, failure)
                if job.act == "finish":
                    job.waiter = None
                    live.jobs.append(job)
        if not self._is_away:
            log.error("%s; %d executions wait to be written", failure, len(self._dirty))

    async def _compose(self, live: RedisRecord) -> Write | None:
        """All that has gathered and the first job as one step; `None` where there is nothing to send."""
        if live.error is not None:
            if live.jobs:
                self._refuse(live, live.error)
            return None
        if any(epoch != live.epoch for epoch, _ in live.gathered.entries):
            self._refuse(live, base.fenced(live.id))
            return None
        job = live.jobs[0] if live.jobs else None
        is_idle = job is None and not live.gathered and live.start_record is None
        if is_idle or (job is not None and self._is_answered(live, job)):
            return None
        return await self._composer.write(live, job)

    def _is_answered(self, live: RedisRecord, job: Job) -> bool:
        """Whether a job needs no write, or may have none."""
        error: ToolfoldError | None = None
        if job.act != "finish" and job.waiter is not None and job.waiter.cancelled():
            # Its caller left before anything of it was sent.
            pass
        elif job.act in ("drain", "flush"):
            if live.gathered or live.start_record is not None:
                return False
            if job.act == "flush" and live.is_full:
                error = base.full(live.id, self.max_bytes)
        elif job.epoch != live.epoch:
            error = base.fenced(live.id)
        elif job.act == "accept" and live.accepted is not None:
            if job.said == live.accepted.said:
                live.accepted = None
            else:
                error = base.fenced(live.id)
        else:
            return False
        live.jobs.popleft()
        answer_job(job, error)
        return True


def answer_job(job: Job, error: ToolfoldError | None) -> None:
    """Tell whoever waits for it."""
    if job.waiter is None or job.waiter.done():
        return
    if error is None:
        job.waiter.set_result(None)
    else:
        job.waiter.set_exception(error)
