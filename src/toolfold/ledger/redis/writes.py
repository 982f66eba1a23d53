"""One write of a Redis ledger: what it holds of an execution, and the arguments of its script."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import replace

from toolfold.errors import ToolfoldError
from toolfold.ledger import base, codec
from toolfold.ledger.base import EXPIRED_SECONDS, Retention, StartRecord, Tape, first_line
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.listing import encode_facts, facts_of
from toolfold.ledger.redis.index import searched_title, tool_names
from toolfold.models import CallRecord, Outcome, ToolSpec

Act: TypeAlias = Literal["drain", "flush", "park", "accept", "finish"]
"""`drain` waits for a round and hears of no refusal: that is for those who wrote."""

_CACHED_GRANTS: Final = 8
SLOW_BYTES: Final = 256 * 1024
"""Larger bodies are packed and read in a thread, so that the event loop goes on."""
_STATES: Final[dict[Act, str]] = {"drain": "", "flush": "", "park": "paused", "accept": "running", "finish": "ended"}
_SPOILT: Final = codec.encode_entry(Tape(is_spoilt=True))


@dataclass(slots=True, eq=False)
class Job:
    """Something that is waited for, or that ends an execution."""

    act: Act
    epoch: int
    waiter: asyncio.Future[None] | None = None
    bodies: Sequence[bytes] = ()
    said: bytes = b""
    """The replies alone: tells whether an `accept` is the same one again, made at another time."""
    outcome: Outcome | None = None
    body: bytes = b""
    """The outcome, encoded; of a `park` its snapshot."""


@dataclass(slots=True)
class Gathered:
    """Encoded entries that wait for the next write, each with its epoch."""

    entries: list[tuple[int, bytes]] = field(default_factory=list)
    size_bytes: int = 0

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, epoch: int, body: bytes) -> None:
        self.entries.append((epoch, body))
        self.size_bytes += len(body)

    def drop(self, count: int) -> None:
        """The first ones are written, or given up."""
        del self.entries[:count]
        self.size_bytes = sum(len(body) for _, body in self.entries)

    def clear(self) -> None:
        self.entries.clear()
        self.size_bytes = 0


@dataclass(slots=True, eq=False)
class RedisRecord:
    """What this process holds of an execution that it writes to."""

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
    gathered: Gathered = field(default_factory=Gathered)
    noted: dict[int, CallRecord] = field(default_factory=dict)
    jobs: deque[Job] = field(default_factory=deque)
    doubt: Write | None = None
    accepted: Job | None = None
    """Written, although its caller was told that it failed; it may come again."""
    error: ToolfoldError | None = None
    """Why something that nobody waited for was not written."""
    is_own: bool = False
    """It began here and was never parked, so that no other process has a reason to take it over."""


@dataclass(slots=True, eq=False)
class Write:
    """One step of one execution, as it is sent."""

    live: RedisRecord
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
    """In the order in which `redis_scripts.WRITE` takes them."""
    earlier: Write | None = None
    """A start that was in doubt already."""
    made_at: float = field(default_factory=time.monotonic)
    """Before it was sent: the lease that it holds ends no earlier than this and its length say."""


class Composer:
    """Puts writes together; knows limits and seals, not the server."""

    def __init__(
        self, prefix: str, seal: Seal | NoSeal, keep: Retention, max_bytes: int, name: Callable[[], str]
    ) -> None:
        self._prefix = prefix
        self._seal = seal
        self._keep = keep
        self._max_bytes = max_bytes
        self._name = name
        self.grants = Grants(seal)
        self.lease: tuple[str, int] = ("", 0)
        """Owner and milliseconds of the lease that every write holds; nobody, unless replicas share the ledger."""

    async def write(self, live: RedisRecord, job: Job | None) -> Write:
        """All that has gathered, and a job, as one step."""
        entries = len(live.gathered)
        start, bodies, is_full = self._fitting(live)
        act: Act = "flush" if job is None else job.act
        refusal: ToolfoldError | None = None
        ending = b""
        if job is not None and job.outcome is not None:
            ending = self._ending(job.outcome, job.body, is_full)
        elif job is not None and act != "drain":
            used = live.size_bytes + len(start) + sum(map(len, (*bodies, *job.bodies)))
            if is_full or used > self._max_bytes:
                act, refusal = "flush", base.full(live.id, self._max_bytes)
            else:
                bodies.extend(job.bodies)
        write = Write(
            live,
            self._name(),
            entries=entries,
            pieces=live.pieces + bool(bodies),
            size_bytes=len(start) + sum(map(len, bodies)) + len(ending),
            is_full=is_full,
            job=job,
            refusal=refusal,
        )
        await self._add_step(write, act, bodies)
        await self._add_outcome(write, job, ending, b"" if refusal or job is None else job.body)
        write.arguments += self.lease
        if live.start_record is not None:
            await self._add_start(write, live.start_record, start)
        return write

    def _fitting(self, live: RedisRecord) -> tuple[bytes, list[bytes], bool]:
        """The start and as many entries as there is room for; whether there were more."""
        start, bodies, is_full = b"", [], live.is_full
        if live.start_record is not None:
            start = codec.encode_begun(live.start_record)
            if len(start) > self._max_bytes:
                start, is_full = codec.encode_begun(replace(live.start_record, files=())), True
                bodies.append(_SPOILT)
        room = self._max_bytes - live.size_bytes - len(start)
        for _, body in live.gathered.entries:
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
        return body if len(body) <= self._max_bytes else codec.encode_cut_down(outcome, self._max_bytes)

    async def _add_step(self, write: Write, act: Act, bodies: Sequence[bytes]) -> None:
        live = write.live
        piece = await self._pack(codec.join_entries(bodies), f"{live.id}/{write.pieces}") if bodies else b""
        write.arguments += [
            self._prefix, live.id, live.epoch, live.last, write.name, piece, sum(map(codec.is_call, bodies)),
            write.size_bytes, int(write.is_full), _STATES[act],
        ]  # fmt: skip

    async def _add_outcome(self, write: Write, job: Job | None, ending: bytes, snapshot: bytes) -> None:
        if job is None or job.outcome is None:
            write.arguments += ["", "", snapshot, milliseconds(self._keep.open_seconds), "", "", 0]
            return
        body = await self._pack(ending, f"{write.live.id}/-1")
        age = milliseconds(self._keep.age_seconds)
        facts = facts_of(job.outcome)
        sealed = self._seal.seal(encode_facts(facts), f"{write.live.id}/facts")
        tools = tool_names(facts.uses, self._seal)
        write.arguments += [
            job.outcome.status, repr(job.outcome.seconds), body, age, sealed, tools, facts.saved_bytes,
        ]  # fmt: skip

    async def _add_start(self, write: Write, begun: StartRecord, start: bytes) -> None:
        live = write.live
        write.granted, grant = self.grants.of(begun.tools)
        title = first_line(begun.program.sent_text)
        write.arguments += [
            await self._pack(start, f"{live.id}/0"), self._seal.seal(title.encode(), f"{live.id}/title"),
            begun.session, begun.tenant, repr(begun.began_at), write.granted, grant, self._seal.key_id, live.mark,
            milliseconds(begun.expires_at + EXPIRED_SECONDS) if begun.expires_at else "", begun.door,
            searched_title(title, self._seal),
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
        self._known: OrderedDict[int, tuple[tuple[ToolSpec, ...], str, bytes]] = OrderedDict()
        self._there: set[str] = set()

    def of(self, tools: tuple[ToolSpec, ...]) -> tuple[str, bytes]:
        """The name of a grant, and its body unless the server is thought to have it."""
        known = self._known.pop(id(tools), None)
        if known is None:
            body = codec.encode_tools(tools)
            digest = self._seal.digest(body).hex()
            known = (tools, digest, self._seal.seal(codec.deflate(body), f"grant/{digest}"))
        self._known[id(tools)] = known
        if len(self._known) > _CACHED_GRANTS:
            _, forgotten, _ = self._known.popitem(last=False)[1]
            self._there.discard(forgotten)
        _, digest, sealed = known
        return digest, b"" if digest in self._there else sealed

    def sent(self, digest: str) -> None:
        """The server has it."""
        if digest:
            self._there.add(digest)

    def missing(self, digest: str) -> None:
        """It was swept away with the last execution that had it."""
        self._there.discard(digest)


def know(live: RedisRecord, answer: Sequence[Any]) -> None:
    """What the server says of an execution."""
    _, epoch, last, pieces, size, is_full = answer
    live.epoch, live.last, live.pieces = int(epoch), last.decode(), int(pieces)
    live.size_bytes, live.is_full = int(size), is_full == b"1"


def milliseconds(seconds: float) -> str:
    """For `PEXPIRE`; nothing for what never expires."""
    return "" if math.isinf(seconds) else str(max(0, int(seconds * 1000)))
