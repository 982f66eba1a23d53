"""Ledger on Redis or Valkey, shared by replicas: each step is one script on the server.

What is acknowledged is as safe as the server keeps it: with `appendonly yes` it survives the server's
restart. The lease that says which replica holds an execution lives beside its record.
"""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError

from toolfold import fork_safety
from toolfold.errors import LedgerFailed, UsageError
from toolfold.ledger import base, codec
from toolfold.ledger.encryption import NoSeal, Seal, seal_for_snapshots
from toolfold.ledger.execution_summaries import Saving, ToolUse
from toolfold.ledger.redis import lua_scripts
from toolfold.ledger.redis.connection import (
    SETTINGS,
    handshake,
    plain_address,
    redact_url,
    script_call,
    server_failure,
    shared_secret,
    sockets_of,
)
from toolfold.ledger.redis.leases import Leases
from toolfold.ledger.redis.listing import RedisLessons, RedisListing
from toolfold.ledger.redis.lua_scripts import STATES
from toolfold.ledger.redis.write_commands import SLOW_BYTES, Job, RedisRecord, milliseconds, refusal, update_record
from toolfold.ledger.redis.writer import RedisWriter, log
from toolfold.models import Outcome
from toolfold.steady_clock import SteadyClock
from toolfold.tools.learned_replies import Lesson

_CHANGES_AT_ONCE: Final = 1000
_BLOCK_MILLISECONDS: Final = 2000
_AWAY_SECONDS: Final = 0.5
_STREAM_ID: Final = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
_SWEPT_AT_ONCE: Final = 200
_QUESTIONS_AT_ONCE: Final = 32
"""Each takes a connection; a server has ten thousand for everyone."""
_LOOK_SECONDS: Final = 2.0
"""For an answer to whether the server is there: whoever asks waits for it."""


class RedisLedger(fork_safety.ProcessOwned):
    """A `Ledger` on a server.

    Args:
        url: `redis://`, `rediss://` for TLS, `valkey://`, `valkeys://` or `unix://`; may name a user, a password, a
            database.
        keep: What may stay; looked at now and then, and expired by the server.
        key: Seals bodies: 32 bytes, or as text their base64 or a passphrase. The same each time.
        max_execution_bytes: What one execution may keep.
        prefix: Of every key; ledgers with different ones do not meet.

    Raises:
        UsageError: The server cannot be reached, or holds a ledger of a newer toolfold or with another key.
    """

    is_lasting = True

    def __init__(
        self, url: str, *, keep: base.Retention | None = None, key: bytes | str | None = None,
        max_execution_bytes: int = base.MAX_EXECUTION_BYTES, prefix: str = "toolfold",
    ) -> None:  # fmt: skip
        self._schedule = base.Schedule(keep or base.Retention())
        self._url, self._prefix, self._clock = plain_address(url), prefix, SteadyClock()
        self._seal = handshake(self._url, prefix, key, self._clock)
        self._snapshot_seal: Seal | None = None
        self._writer = RedisWriter(self._send, self._seal, self._schedule.keep, max_execution_bytes, self._tidy)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Redis | None = None
        self._room = asyncio.Semaphore(_QUESTIONS_AT_ONCE)
        self._is_closed = False
        self._ping_task: asyncio.Future[bool] | None = None
        self._leases: Leases | None = None
        self._lessons = RedisLessons(self._ask, self._seal)
        self._listing = RedisListing(self._ask, self._seal)
        fork_safety.watch(self)

    @property
    def is_sealed(self) -> bool:
        return isinstance(self._seal, Seal)

    @property
    def where(self) -> str:
        """Address and prefix, without user and password."""
        return f"{redact_url(self._url)}#{self._prefix}"

    def disown(self) -> None:
        """In a forked child: two processes on one connection would read each other's answers."""
        if self._client is not None:
            fork_safety.blank(sockets_of(self._client))

    def now(self) -> float:
        return self._clock.now()

    def begin(self, start_record: base.StartRecord) -> None:
        self._check_open()
        self._writer.begin(start_record)

    def note(self, execution_id: str, *entries: base.Entry, epoch: int = 0) -> None:
        self._check_open()
        records = [entry.record for entry in entries if isinstance(entry, base.ReplyEntry)]
        self._writer.note(execution_id, epoch, [codec.encode_entry(entry) for entry in entries], records)

    def learn(self, tenant: str, lesson: Lesson) -> None:
        self._check_open()
        self._lessons.add(tenant, lesson)

    # waited for

    async def flush(self, execution_id: str) -> None:
        await self._wait(execution_id, Job("flush", 0))

    def secure(self, execution_id: str, *entries: base.Entry, epoch: int = 0) -> Awaitable[None]:
        self.note(execution_id, *entries, epoch=epoch)
        return self.flush(execution_id)

    async def park(self, execution_id: str, *, epoch: int = 0, snapshot: base.SealedSnapshot | None = None) -> None:
        if snapshot is None or len(snapshot.body) > self._writer.max_bytes:
            await self._wait(execution_id, Job("park", epoch))
            return
        pause_entry = codec.encode_entry(base.PauseEntry(snapshot.round))
        await self._wait(execution_id, Job("park", epoch, bodies=[pause_entry], body=snapshot.body))

    async def accept(self, execution_id: str, entries: Sequence[base.ReplyEntry], *, epoch: int = 0) -> None:
        encoded_replies = codec.encode_replies([entry.reply for entry in entries])
        bodies = [codec.encode_entry(entry) for entry in entries]
        await self._wait(execution_id, Job("accept", epoch, bodies=bodies, encoded_replies=encoded_replies))

    async def takeover(self, execution_id: str) -> int:
        self._check_open()
        # What this process wrote under the old epoch goes first; its errors are of no interest any more.
        with suppress(LedgerFailed):
            await self._writer.drain(execution_id)
        age = milliseconds(self._schedule.keep.open_seconds)
        lease = ("", 0) if self._leases is None else self._leases.terms
        asked_at = time.monotonic()
        answer = await self._ask(lua_scripts.TAKEOVER, execution_id, self._writer.name(), age, *lease)
        if error := refusal(execution_id, answer[0]):
            raise error
        record = RedisRecord(execution_id)
        update_record(record, answer)
        self._writer.replace_record(record)
        if self._leases is not None:
            self._leases.record_takeover(execution_id, int(answer[1]), asked_at)
        return int(answer[1])

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0, wait: bool = False) -> None:
        self._check_open()
        record = self._writer.record(execution_id)
        body = codec.encode_outcome(outcome, record.call_records)
        job = Job("finish", epoch, outcome=outcome, body=body)
        if wait:
            await self._writer.wait(execution_id, job)
            return
        if record.is_own and record.error is None and record.epoch == epoch:
            self._writer.submit(record, job)
            return
        # It is kept and sent when the server is back; that it is away must not cost the caller the outcome.
        with suppress(LedgerFailed):
            await self._writer.wait(execution_id, job)

    async def sweep(self, keep: base.Retention | None = None) -> int:
        """Forget now what `keep`, or the ledger's own retention, does not allow; how many executions went."""
        self._check_open()
        await self._writer.drain()
        count = 0
        while step_count := await self._sweep_some(keep or self._schedule.keep):
            count += step_count
        return count

    async def delete(self, execution_id: str) -> bool:
        self._check_open()
        await self._writer.drain()
        return bool(await self._ask(lua_scripts.DELETE, execution_id))

    # read

    async def load(self, execution_id: str) -> base.ExecutionHistory | None:
        self._check_open()
        await self._writer.drain(execution_id)
        answer = await self._ask(lua_scripts.LOAD, execution_id)
        if not answer:
            return None
        try:
            if sum(map(len, answer[-1])) < SLOW_BYTES:
                return self._history(execution_id, answer)
            return await asyncio.to_thread(self._history, execution_id, answer)
        except (msgspec.MsgspecError, zlib.error, LookupError, TypeError) as error:
            raise LedgerFailed(f"the ledger cannot be read: {error}; a record in it is damaged") from error

    async def snapshot(self, execution_id: str) -> bytes | None:
        self._check_open()
        await self._writer.drain(execution_id)
        body: bytes | None = await self._ask(lua_scripts.FIELD, execution_id, "snapshot")
        return body

    def snapshot_seal(self) -> Seal | None:
        if self._snapshot_seal is None:
            self._snapshot_seal = seal_for_snapshots(self._seal)
        return self._snapshot_seal

    async def find(self, prefix: str, *, limit: int = 2) -> list[str]:
        self._check_open()
        await self._writer.drain()
        first, last = (f"[{prefix}", f"({prefix}{chr(0x10FFFF)}") if prefix else ("-", "+")
        return [execution_id.decode() for execution_id in await self._ask(lua_scripts.FIND, first, last, limit)]

    async def list(
        self, *, limit: int = 50, before: float | None = None, tenant: str | None = None
    ) -> list[base.ExecutionSummary]:
        return [*await self.search(base.ExecutionFilter(tenant=tenant, until=before), limit=limit)]

    async def search(
        self, query: base.ExecutionFilter, *, limit: int = 50, before: str = ""
    ) -> Sequence[base.ExecutionSummary]:
        return [summary for summary, _ in await (await self._flushed_listing()).rows(query, limit, before)]

    async def counts(self, since: float, tenant: str | None = None) -> dict[str, int]:
        return await (await self._flushed_listing()).counts(since, tenant)

    async def savings(self, since: float, bucket: float, tenant: str | None = None) -> Sequence[Saving]:
        return await (await self._flushed_listing()).savings(since, bucket, tenant)

    async def uses(self, limit: int, tenant: str | None = None) -> Sequence[tuple[float, ToolUse]]:
        return await (await self._flushed_listing()).uses(limit, tenant)

    async def story(self, execution_id: str, *, after: int = 0) -> base.Story | None:
        answer = await self._ask(lua_scripts.STORY, execution_id, max(0, after))
        return await asyncio.to_thread(self._story, execution_id, max(0, after), answer) if answer else None

    async def _flushed_listing(self) -> RedisListing:
        """The listing, after all that waits here was written."""
        self._check_open()
        await self._writer.drain()
        return self._listing

    async def learned(self, tenant: str) -> Sequence[Lesson]:
        return await self._lessons.for_tenant(tenant)

    async def is_there(self) -> bool:
        self._check_open()
        # One look for all who ask at the same time: anybody may, and each would take a connection.
        if self._ping_task is None or self._ping_task.done():
            self._ping_task = asyncio.ensure_future(self._ping())
        return await asyncio.shield(self._ping_task)

    async def close(self) -> None:
        if self._is_closed or self._is_inherited:
            return
        self._check_open()
        with suppress(LedgerFailed):
            await self._writer.drain()
            await self._lessons.drain()
        self._is_closed = True
        if incomplete_count := await self._writer.stop():
            log.error("the ledger was closed while its server was away: %d executions are incomplete", incomplete_count)
        if self._client is not None:
            await self._client.aclose()

    # changes and decisions

    async def follow(self, after: str | None = None) -> AsyncIterator[base.LedgerChange]:
        if after is not None and _STREAM_ID.fullmatch(after) is None:
            raise UsageError(f"invalid cursor {after!r}; take the one of the last change")
        cursor = after
        while not self._is_closed:
            first, last = await self._ask(lua_scripts.CHANGES)
            # Where the first that is there is a later one, some may have been trimmed.
            if cursor is None or (first and cursor != "0-0" and _number(cursor) < _number(first.decode())):
                cursor = last.decode()
                yield base.LedgerChange(cursor=cursor, execution_id="")
            async for change in self._changes(cursor):
                yield change
                cursor = change.cursor

    async def _changes(self, cursor: str) -> AsyncIterator[base.LedgerChange]:
        """From the cursor on, until the server was away: then the caller asks where the stream begins now."""
        # Its own connection: it waits on the server, and whoever writes must not wait behind it.
        client = Redis.from_url(self._url, **{**SETTINGS, "socket_timeout": None})
        key = f"{{{self._prefix}}}:changes"
        try:
            while True:
                # Any: the client types its answers for both of its kinds at once.
                streams: Any = await client.xread({key: cursor}, count=_CHANGES_AT_ONCE, block=_BLOCK_MILLISECONDS)
                for stream_id, fields in streams[0][1] if streams else ():
                    cursor = stream_id.decode()
                    yield base.LedgerChange(cursor=cursor, execution_id=fields[b"id"].decode())
        except RedisError as error:
            log.warning("cannot follow the changes of the ledger: %s", server_failure(error))
            await asyncio.sleep(_AWAY_SECONDS)
        finally:
            await client.aclose()

    async def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        return bool(await self._ask(lua_scripts.DECIDE, execution_id, epoch, call_id, body))

    async def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        body: bytes | None = await self._ask(lua_scripts.FIELD, execution_id, f"decided/{epoch}/{call_id}")
        return body

    # leases

    def hold_as(self, owner: str, seconds: float) -> Leases:
        """Every execution that is written to from now on is held by `owner`, and none that another holds is taken over.

        Before the first write; `seconds` is how long a lease lasts unless it is renewed with `Leases.beat`.
        """
        self._leases = Leases(self._ask, owner, seconds, self._clock)
        self._writer.hold_leases(*self._leases.terms, self._leases.record_write)
        return self._leases

    def shared_secret(self, name: str) -> bytes:
        """32 bytes that all who use this ledger share; made by the first who asks. Blocks.

        Raises:
            UsageError: The server cannot be reached.
        """
        return shared_secret(self._url, self._prefix, self._seal, name)

    async def agree(self, name: str, secret: bytes) -> Literal["same", "put back", "another", "gone"]:
        """Whether a shared secret is still the one that this process knows; put back where the server lost it.

        Not where the ledger is sealed: what else it knew of its key is gone, too.
        """
        place = f"secret/{name}"
        sealed_secret = self._seal.seal(secret, place)
        is_new, stored_secret = await self._ask(
            lua_scripts.AGREE, place, sealed_secret, int(isinstance(self._seal, NoSeal))
        )
        if not stored_secret:
            return "gone"
        if is_new:
            return "put back"
        return "same" if self._seal.open(stored_secret, place) == secret else "another"

    # to the server

    def _check_open(self) -> None:
        """Refuse after `close` and in a forked child; follow to another event loop: connections do not move there."""
        self._check_process()
        if self._is_closed:
            raise base.closed_error()
        with suppress(RuntimeError):
            loop = asyncio.get_running_loop()
            if loop is not self._loop:
                self._loop = loop
                # One try each: the writer knows which of its scripts may be sent again, the client does not.
                self._client = Redis.from_url(self._url, retry=Retry(NoBackoff(), 0), **SETTINGS)
                self._room = asyncio.Semaphore(_QUESTIONS_AT_ONCE)
                self._ping_task = None
                self._writer.rebind()

    async def _wait(self, execution_id: str, job: Job) -> None:
        self._check_open()
        await self._writer.wait(execution_id, job)

    # Any: what a script answers is between it and whoever asks.
    async def _send(self, commands: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Any]:
        assert self._client is not None
        async with self._client.pipeline(transaction=False) as pipeline:
            for script, arguments in commands:
                pipeline.eval(*script_call(self._prefix, script, arguments))
            return await pipeline.execute(raise_on_error=False)

    async def _ask(self, script: str, *arguments: Any) -> Any:
        """One script that may be run twice: an idle connection may have been closed since its last use."""
        self._check_open()
        commands = [(script, arguments)]
        try:
            async with self._room:
                try:
                    (answer,) = await self._send(commands)
                except ConnectionLost:
                    (answer,) = await self._send(commands)
        except RedisError as error:
            raise server_failure(error) from error
        except UnicodeEncodeError as error:
            raise base.invalid_text_error(error) from error
        if isinstance(answer, RedisError):
            raise server_failure(answer) from answer
        return answer

    async def _ping(self) -> bool:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return bool(await self._ask("return 1"))
        except (LedgerFailed, TimeoutError):
            return False

    async def _tidy(self, size_bytes: int, executions: int) -> None:
        """Forget what is too old, after everyone was answered."""
        self._schedule.record_write(size_bytes, executions)
        if not self._schedule.is_due():
            return
        try:
            if await self._sweep_some(self._schedule.keep):
                self._schedule.hasten()
        except LedgerFailed as error:
            log.warning("old executions were not deleted: %s", error)

    async def _sweep_some(self, keep: base.Retention) -> int:
        limits = (keep.age_seconds, keep.open_seconds, keep.executions, keep.total_bytes, _SWEPT_AT_ONCE)
        return int(await self._ask(lua_scripts.SWEEP, *limits))

    # from bytes

    def _history(self, execution_id: str, answer: Sequence[Any]) -> base.ExecutionHistory:
        state, epoch, start, ending, granted, grant, is_full, pieces = answer
        tools = codec.decode_tools(self._unpack(grant, f"grant/{granted.decode()}"))
        entries = self._entries(execution_id, pieces, 1)
        outcome = codec.decode_outcome(self._unpack(ending, f"{execution_id}/-1"), entries) if ending else None
        return base.ExecutionHistory(
            start_record=codec.decode_start(self._unpack(start, f"{execution_id}/0"), tools), entries=entries,
            state=STATES[state], epoch=int(epoch), outcome=outcome, is_full=is_full == b"1",
        )  # fmt: skip

    def _unpack(self, sealed: bytes, place: str) -> bytes:
        return codec.inflate(self._seal.open(sealed, place))

    def _story(self, execution_id: str, after: int, answer: Sequence[Any]) -> base.Story:
        state, epoch, ending, pieces = answer
        entries = self._entries(execution_id, pieces, after + 1)
        outcome = codec.decode_outcome(self._unpack(ending, f"{execution_id}/-1"), ()) if ending else None
        place = after + len(pieces)
        return base.Story(state=STATES[state], epoch=int(epoch), place=place, entries=entries, outcome=outcome)

    def _entries(self, execution_id: str, pieces: Sequence[bytes], first: int) -> tuple[base.Entry, ...]:
        batches = [self._unpack(piece, f"{execution_id}/{number}") for number, piece in enumerate(pieces, first)]
        return tuple(entry for batch in batches for entry in codec.decode_entries(batch))


def _number(stream_id: str) -> tuple[int, int]:
    at, _, number = stream_id.partition("-")
    return int(at), int(number)
