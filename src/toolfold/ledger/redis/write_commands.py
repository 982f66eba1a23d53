"""Writes of a Redis ledger: the state of an open execution, its jobs, and the arguments of each script call."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import replace

from toolfold.errors import LedgerFailed, ToolfoldError
from toolfold.ledger import base, codec
from toolfold.ledger.base import EXPIRED_SECONDS, Retention, StartRecord, TapeEntry, first_line
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.execution_summaries import encode_facts, encode_names, facts_of, labels_of
from toolfold.ledger.redis.lua_scripts import label_names, searched_title, tool_names
from toolfold.models import CallRecord, Outcome, ToolSpec

JobKind: TypeAlias = Literal["drain", "flush", "park", "accept", "finish"]
"""`drain` waits for a round and hears of no refusal: that is for those who wrote."""

_CACHED_GRANTS: Final = 8
SLOW_BYTES: Final = 256 * 1024
"""Larger bodies are packed and read in a thread, so that the event loop goes on."""
_STATES: Final = {"park": "paused", "accept": "running", "finish": "ended"}
"""After a job; no other changes it."""
_SPOILT: Final = codec.encode_entry(TapeEntry(is_spoilt=True))


@dataclass(slots=True, eq=False)
class Job:
    """Write that somebody waits for, or that ends an execution."""

    kind: JobKind
    epoch: int
    waiter: asyncio.Future[None] | None = None
    bodies: Sequence[bytes] = ()
    encoded_replies: bytes = b""
    """The replies alone: tells whether an `accept` is the same one again, made at another time."""
    outcome: Outcome | None = None
    body: bytes = b""
    """The outcome, encoded; of a `park` its snapshot."""


@dataclass(slots=True, eq=False)
class RedisRecord:
    """State of an execution that this process writes to."""

    id: str
    mark: str = ""
    """Tells this start of the execution from another with the same id."""
    start_record: StartRecord | None = None
    """Until it is written."""
    epoch: int | None = None
    """`None` until the server was asked for this and the next four; from then on only this process writes."""
    last: str = ""
    """The name of the latest write."""
    pieces: int = 0
    size_bytes: int = 0
    is_full: bool = False
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    """Encoded, with their epochs; they wait for the next write."""
    entry_bytes: int = 0
    call_records: dict[int, CallRecord] = field(default_factory=dict)
    jobs: deque[Job] = field(default_factory=deque)
    doubt: Write | None = None
    accepted: Job | None = None
    """Written, although its caller was told that it failed; it may come again."""
    error: ToolfoldError | None = None
    """Why something that nobody waited for was not written."""
    is_own: bool = False
    """It began here and was never parked, so that no other process has a reason to take it over."""

    @property
    def has_content(self) -> bool:
        """Whether something waits to be written, jobs apart."""
        return bool(self.entries) or self.start_record is not None

    def drop_entries(self, count: int | None = None) -> None:
        """Remove the first ones, or all: they are written, or given up."""
        del self.entries[:count]
        self.entry_bytes = sum(len(body) for _, body in self.entries)


@dataclass(slots=True, eq=False)
class Write:
    """One step of one execution, as it is sent."""

    record: RedisRecord
    name: str
    entries: int
    """How many of the gathered ones it holds, or leaves out for good."""
    pieces: int
    size_bytes: int
    is_full: bool
    job: Job | None
    refusal: ToolfoldError | None = None
    """What the job is answered although its entries were written."""
    granted: str = ""
    # Any: text, numbers and bytes.
    arguments: list[Any] = field(default_factory=list)
    """In the order in which `scripts.WRITE` takes them."""
    previous: Write | None = None
    """A start that was in doubt already."""
    made_at: float = field(default_factory=time.monotonic)
    """Before it was sent: the lease that it holds ends no earlier than this and its length say."""


class Composer:
    """Puts writes together; knows limits and seals, not the server."""

    def __init__(self, seal: Seal | NoSeal, keep: Retention, max_bytes: int, name: Callable[[], str]) -> None:
        self._seal = seal
        self._keep = keep
        self._max_bytes = max_bytes
        self._name = name
        self.grants = Grants(seal)
        self.lease: tuple[str, int] = ("", 0)
        """Owner and milliseconds of the lease that every write holds; nobody, unless replicas share the ledger."""

    async def write(self, record: RedisRecord, job: Job | None) -> Write:
        """Put the waiting entries and a job into one write."""
        entries = len(record.entries)
        start, bodies, is_full = self._fitting(record)
        kind: JobKind = "flush" if job is None else job.kind
        error, ending = None, b""
        if job is not None and job.outcome is not None:
            ending = self._ending(job.outcome, job.body, is_full)
        elif job is not None and kind != "drain":
            used = record.size_bytes + len(start) + sum(map(len, (*bodies, *job.bodies)))
            if is_full or used > self._max_bytes:
                kind, error = "flush", base.full_error(record.id, self._max_bytes)
            else:
                bodies.extend(job.bodies)
        write = Write(
            record, self._name(), entries=entries, pieces=record.pieces + bool(bodies),
            size_bytes=len(start) + sum(map(len, bodies)) + len(ending), is_full=is_full, job=job, refusal=error,
        )  # fmt: skip
        piece = await self._pack(codec.join_entries(bodies), f"{record.id}/{write.pieces}") if bodies else b""
        write.arguments += [
            record.id, record.epoch, record.last, write.name, piece, sum(map(codec.is_call, bodies)), write.size_bytes,
            int(is_full), _STATES.get(kind, ""),
        ]  # fmt: skip
        await self._add_outcome(write, job, ending, b"" if error or job is None else job.body)
        write.arguments += self.lease
        if record.start_record is not None:
            await self._add_start(write, record.start_record, start)
        return write

    def _fitting(self, record: RedisRecord) -> tuple[bytes, list[bytes], bool]:
        """Start and entries that fit into the limit, and whether some do not."""
        start, bodies, is_full = b"", [], record.is_full
        if record.start_record is not None:
            start = codec.encode_start(record.start_record)
            if len(start) > self._max_bytes:
                start, is_full = codec.encode_start(replace(record.start_record, files=())), True
                bodies.append(_SPOILT)
        room = self._max_bytes - record.size_bytes - len(start)
        for _, body in record.entries:
            if is_full:
                break
            room -= len(body)
            is_full = room < 0
            bodies.append(_SPOILT if is_full else body)
        return start, bodies, is_full

    def _ending(self, outcome: Outcome, body: bytes, is_full: bool) -> bytes:
        if is_full:
            # Some of the entries are not there, so that its calls must be.
            body = codec.encode_outcome(outcome, {})
        return body if len(body) <= self._max_bytes else codec.encode_truncated(outcome, self._max_bytes)

    async def _add_outcome(self, write: Write, job: Job | None, ending: bytes, snapshot: bytes) -> None:
        if job is None or job.outcome is None:
            write.arguments += ["", "", snapshot, milliseconds(self._keep.open_seconds), "", "", 0]
            return
        body = await self._pack(ending, f"{write.record.id}/-1")
        age = milliseconds(self._keep.age_seconds)
        facts = facts_of(job.outcome)
        sealed = self._seal.seal(encode_facts(facts), f"{write.record.id}/facts")
        tools = tool_names(facts.uses, self._seal)
        write.arguments += [
            job.outcome.status, repr(job.outcome.seconds), body, age, sealed, tools, facts.saved_bytes,
        ]  # fmt: skip

    async def _add_start(self, write: Write, start: StartRecord, body: bytes) -> None:
        record = write.record
        write.granted, grant = self.grants.encode(start.tools)
        title, names = first_line(start.program.sent_text), encode_names(start)
        write.arguments += [
            await self._pack(body, f"{record.id}/0"), self._seal.seal(title.encode(), f"{record.id}/title"),
            start.session, start.tenant, repr(start.began_at), write.granted, grant, self._seal.key_id, record.mark,
            milliseconds(start.expires_at + EXPIRED_SECONDS) if start.expires_at else "", start.interface,
            searched_title(f"{start.title} {title}".strip(), self._seal),
            self._seal.seal(names, f"{record.id}/names") if names else b"",
            label_names(labels_of(start), self._seal),
        ]  # fmt: skip

    async def _pack(self, body: bytes, place: str) -> bytes:
        if len(body) > SLOW_BYTES:
            return await asyncio.to_thread(lambda: self._seal.seal(codec.deflate(body), place))
        return self._seal.seal(codec.deflate(body), place)


class Grants:
    """Tools as they are stored: once for all executions that share them, and sent once where possible."""

    def __init__(self, seal: Seal | NoSeal) -> None:
        self._seal = seal
        # By identity, with the tuple held so that its id stays its own: a runtime grants the same one each time.
        self._cache: OrderedDict[int, tuple[tuple[ToolSpec, ...], str, bytes]] = OrderedDict()
        self.server_digests: set[str] = set()
        """Grants that the server is thought to have; one is swept away with the last execution that had it."""

    def encode(self, tools: tuple[ToolSpec, ...]) -> tuple[str, bytes]:
        """The name of a grant, and its body unless the server is thought to have it."""
        grant = self._cache.pop(id(tools), None)
        if grant is None:
            body = codec.encode_tools(tools)
            digest = self._seal.digest(body).hex()
            grant = (tools, digest, self._seal.seal(codec.deflate(body), f"grant/{digest}"))
        self._cache[id(tools)] = grant
        if len(self._cache) > _CACHED_GRANTS:
            _, evicted_digest, _ = self._cache.popitem(last=False)[1]
            self.server_digests.discard(evicted_digest)
        _, digest, sealed = grant
        return digest, b"" if digest in self.server_digests else sealed


_REFUSALS: Final[dict[bytes, Callable[[str], ToolfoldError]]] = {
    b"unknown": base.unknown_error, b"ended": base.ended_error, b"leased": base.leased_error,
    b"twice": base.duplicate_error, b"fenced": base.fenced_error,
    b"key": lambda _: LedgerFailed("the ledger has another key now, or lost its records; open it again"),
}  # fmt: skip


def refusal(execution_id: str, answer: bytes) -> ToolfoldError | None:
    """Error for an answer of a script; `None` for one that does not refuse."""
    error = _REFUSALS.get(answer)
    return None if error is None else error(execution_id)


def update_record(record: RedisRecord, answer: Sequence[Any]) -> None:
    """Note what the server says of an execution."""
    _, epoch, last, pieces, size, is_full = answer
    record.epoch, record.last, record.pieces = int(epoch), last.decode(), int(pieces)
    record.size_bytes, record.is_full = int(size), is_full == b"1"


def milliseconds(seconds: float) -> str:
    """For `PEXPIRE`; nothing for what never expires."""
    return "" if math.isinf(seconds) else str(max(0, int(seconds * 1000)))
