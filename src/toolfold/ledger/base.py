"""Ledger contract: the protocol of every store, its entries and values, its errors, and retention.

A replay reads the same entries that a person does: calls in the order in which the program made
them, replies in the order in which it got them, and the tape of its clock reads in between.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

# The stores raise them by the contract below, so they can be imported from here too: the alias says so to mypy.
from toolfold.errors import Fenced as Fenced  # noqa: PLC0414
from toolfold.errors import LedgerFailed as LedgerFailed  # noqa: PLC0414
from toolfold.errors import LedgerFull as LedgerFull  # noqa: PLC0414
from toolfold.errors import UsageError
from toolfold.ledger.encryption import Seal
from toolfold.models import MIB, Call, CallRecord, Covers, Json, Outcome, Reply
from toolfold.models import StartRecord as StartRecord  # noqa: PLC0414
from toolfold_guest.shared.value_rules import escaped

State: TypeAlias = Literal["running", "paused", "ended"]


# Entries are kept as arrays that begin with the tag: a new field comes last, and has a default.
class CallEntry(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The program made a call. Written before a tool that is not safe to repeat is called."""

    call: Call
    at: float = 0.0
    """Seconds since the start of the execution; 0 where the reply came at once, whose record has it."""

    def __eq__(self, other: object) -> bool:
        """The same call, whenever it was made."""
        return self.call == other.call if isinstance(other, CallEntry) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # its arguments may be a list


class ReplyEntry(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The program was given a reply; entries stand in the order of delivery."""

    reply: Reply
    record: CallRecord


class HandoverEntry(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A tool that had been called left the answer to the outside (`is_open`), or goes on with that answer."""

    call_id: int
    is_open: bool


class DecisionEntry(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """By what right a call was made, or why it was not. Stands before its `CallEntry`, unless it was begun before."""

    call_id: int
    approved: bool
    reason: str = ""
    by: str = ""
    covers: Covers = "call"
    calls: int | None = None
    under: int = 0
    """The call whose answer stands for this one; 0 where this one was asked for itself."""


class TapeEntry(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Wake-ups and clock reads of the guest since the last one of these."""

    wakes: tuple[int, ...] = ()
    clocks: tuple[int | float, ...] = ()  # an int stays one: `time_ns` has more digits than a float
    is_spoilt: bool = False
    seconds_left: float | None = None
    """Of the wall clock, where the program paused: its caller was told so, and is told the same after a restart."""


class PauseEntry(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The program paused, and its snapshot of that moment was kept. What stands before this need not be replayed."""

    round: int


MomentKind: TypeAlias = Literal["printed", "asked", "paused", "resumed", "retried", "ticked"]


class Moment(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=6):
    """Live event for viewers of an execution. Of these a replay needs only which call `asked` under which id."""

    kind: MomentKind
    at: float
    """Seconds since the start of the execution."""
    call_id: int = 0
    """Of what was asked or retried."""
    text: str = ""
    """What was printed; why a tool is called again."""
    facts: Mapping[str, Json] = msgspec.field(default_factory=dict)
    """Of `printed` its `stream`, and its `place` there, in characters; of `asked` the call's `tool`, `arguments` and
    `line`, and the `wait_seconds` after which it is refused; of `ticked` what is left of the wall clock,
    `seconds_left`."""


Entry: TypeAlias = CallEntry | ReplyEntry | TapeEntry | HandoverEntry | PauseEntry | DecisionEntry | Moment


@dataclass(frozen=True, slots=True)
class SealedSnapshot:
    """A snapshot as `ledger.snapshots` sealed it; a ledger keeps the latest of an execution until that ends."""

    round: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionHistory:
    """Complete record of one execution."""

    start_record: StartRecord
    entries: tuple[Entry, ...] = ()
    state: State
    epoch: int
    outcome: Outcome | None = None
    is_full: bool = False
    """Entries are missing: there were more than the ledger could keep."""

    @property
    def is_whole(self) -> bool:
        """No call that must not be repeated can be missing. The last replies of a killed process always may be."""
        return not self.is_full and (self.state == "ended" or self.start_record.is_strict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSummary:
    """One line of a listing."""

    execution_id: str
    state: State
    status: str
    """Of the outcome; empty while there is none."""
    began_at: float
    seconds: float
    calls: int
    first_line: str
    """Of the program, shortened."""
    session: str = ""
    tenant: str = ""
    interface: str = ""
    failed: int = 0
    """Calls that failed; counted when it has ended."""
    saved_bytes: int = 0
    """What stayed out of the model's context; a loss is negative."""
    lanes: tuple[tuple[int, int, int, int], ...] = ()
    """The calls of one that has ended, as `summing.lanes_of` draws them."""
    title: str = ""
    tags: tuple[str, ...] = ()
    user: str = ""
    conversation: str = ""
    model: str = ""
    """These five as in `RunNames`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChange:
    """Something was written about an execution."""

    cursor: str
    """Where to go on; compare it with nothing but equality."""
    execution_id: str
    """Empty: what changed before this is not known any more; read anew what you show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Entries of one execution since a position in its record."""

    state: State
    epoch: int
    place: int
    """Where the next one goes on."""
    entries: tuple[Entry, ...]
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFilter:
    """Filter of executions; fields that are `None` match everything."""

    id: str | None = None
    state: State | None = None
    status: str | None = None
    interface: str | None = None
    tool: str | None = None
    tenant: str | None = None
    session: str | None = None
    tag: str | None = None
    user: str | None = None
    conversation: str | None = None
    model: str | None = None
    since: float | None = None
    until: float | None = None
    text: str | None = None
    """In the first line, in any case; where the ledger is sealed, nothing is found by it."""
    words: str | None = None
    """Words and "quoted phrases" anywhere in the record, all of them. A ledger without such an index, as on a server,
    looks for them as one `text`."""


_SILENT: Final = re.compile(r'#!|: &$|wait "\$!"$')
"""A line that says nothing of a program: its interpreter, or the guard that LibreChat puts before bash programs."""


def first_line(text: str, length: int = 80) -> str:
    """The first line of a program that says something, shortened; text that any store can keep."""
    lines = (line.strip() for line in text.splitlines())
    line = next((line for line in lines if line and not _SILENT.match(line)), "")
    line = escaped(line[: length + 1])  # a model's JSON may have half of a surrogate pair
    return line if len(line) <= length else line[: length - 1] + "…"


class Ledger(Protocol):
    """Ledger contract: stores the records of executions.

    `begin` and `note` only gather: they return at once and are written with the next
    `flush`, `secure`, `park`, `accept` or `finish`, or shortly after, in the order given. The others
    return when what they say is safe against a kill of this process. A write with an epoch
    that is not the execution's raises `Fenced` and changes nothing.
    """

    @property
    def is_lasting(self) -> bool:
        """Whether what is safe in it outlives this process."""

    @property
    def is_sealed(self) -> bool:
        """Whether it has a key, without which nothing of programs, arguments and replies can be read."""

    def now(self) -> float:
        """Seconds since 1970 by the clock of this ledger, which all who use it share; deadlines on record are by it.

        It passes evenly: to set the clock of the machine changes nothing.
        """

    def begin(self, start_record: StartRecord) -> None: ...
    def note(self, execution_id: str, *entries: Entry, epoch: int = 0) -> None: ...
    async def flush(self, execution_id: str) -> None:
        """All that was gathered for this execution is safe, and others can read it."""

    def secure(self, execution_id: str, *entries: Entry, epoch: int = 0) -> Awaitable[None] | None:
        """Note these; all that was gathered for this execution is safe. Others read it soon, or when they take over.

        `None`: it is safe now. Otherwise it is when what this returns was awaited.
        """

    async def park(self, execution_id: str, *, epoch: int = 0, snapshot: SealedSnapshot | None = None) -> None:
        """The execution is paused. A snapshot is kept in one step with its `PauseEntry`, and replaces the last.

        One that is too large for the ledger is left out: a replay then begins at the one before, or at the start.
        """

    async def accept(self, execution_id: str, entries: Sequence[ReplyEntry], *, epoch: int = 0) -> None:
        """Write replies of the caller before the program continues."""

    async def takeover(self, execution_id: str) -> int:
        """Raise the epoch, which fences the previous owner; returns the new epoch."""

    async def finish(self, execution_id: str, outcome: Outcome, *, epoch: int = 0, wait: bool = False) -> None:
        """The execution is over; its outcome is written shortly after, in the background.

        With `wait` it is safe when this returns; if it cannot be written now, that is raised, and tried again later.
        """

    async def load(self, execution_id: str) -> ExecutionHistory | None: ...
    async def snapshot(self, execution_id: str) -> bytes | None:
        """The body of the latest snapshot, as it was given; it is not looked into here."""

    def snapshot_seal(self) -> Seal | None:
        """Seal for snapshots in this ledger; `None` if they cannot be sealed."""

    async def find(self, prefix: str, *, limit: int = 2) -> list[str]:
        """Ids that start with `prefix`, in their order: two are enough to know that it is not unique."""

    async def list(
        self, *, limit: int = 50, before: float | None = None, tenant: str | None = None
    ) -> list[ExecutionSummary]:
        """Newest first."""

    async def search(self, query: ExecutionFilter, *, limit: int = 50, before: str = "") -> Sequence[ExecutionSummary]:
        """Newest first; `before` is the id of the last one of the page before."""

    async def story(self, execution_id: str, *, after: int = 0) -> Story | None:
        """What is on record since `after`, a `Story.place`; `None` if the execution is not known."""

    def follow(self, after: str | None = None) -> AsyncIterator[LedgerChange]:
        """Changes by any process, in the order in which they were written, each once.

        Of several writes about one execution that were not read yet, a ledger may tell of the last alone.
        `after` is the cursor of the last change that was seen, perhaps by another process; `None`: from now on, and
        the first has no id and comes at once. What is read once it has come lacks nothing but what follows.
        """

    async def delete(self, execution_id: str) -> bool:
        """Forget an execution, whatever its state; false if it is not known. Whoever still runs it cannot write it."""

    async def is_there(self) -> bool:
        """Whether what is written can be found again; false where its file was deleted or its server is away."""

    async def close(self) -> None:
        """Write what has gathered and let go of the store."""


# ----------------------------------------------------------------------------------------------------
# The words in which every store refuses a write, so that they read the same everywhere.


def fenced_error(execution_id: str) -> Fenced:
    return Fenced(f"execution {execution_id!r} was taken over by another process; leave it to that one")


def suspended_error(execution_id: str) -> Fenced:
    return Fenced(f"execution {execution_id!r} was cut off because its host stops; it is on record up to there")


def leased_error(execution_id: str) -> Fenced:
    return Fenced(f"execution {execution_id!r} is held by another replica; send the request to that one")


def takeover_error(execution_id: str, error: OSError) -> LedgerFailed:
    reason = (error.strerror or "unknown reason").lower()
    return LedgerFailed(f"execution {execution_id!r} cannot be taken over: {reason}; check the disk of the ledger")


def full_error(execution_id: str, max_bytes: int) -> LedgerFull:
    return LedgerFull(
        f"execution {execution_id!r} wants to keep more than {max_bytes} bytes; "
        "let its tools return less, or raise the ledger's limit"
    )


def unknown_error(execution_id: str) -> UsageError:
    return UsageError(f"no execution {execution_id!r} in the ledger; it may have been forgotten since")


def ended_error(execution_id: str) -> UsageError:
    return UsageError(f"execution {execution_id!r} has ended; its record takes no more")


def duplicate_error(execution_id: str) -> UsageError:
    return UsageError(f"execution {execution_id!r} is already in the ledger; ids are used once")


def unrecordable_error(execution_id: str | None, error: Exception) -> LedgerFailed:
    subject = "a write to the ledger" if execution_id is None else f"execution {execution_id!r}"
    failure = LedgerFailed(f"{subject} cannot be recorded: {str(error)[:200]!r}; the log has the details")
    failure.__cause__ = error
    return failure


def invalid_text_error(error: UnicodeEncodeError) -> UsageError:
    return UsageError(f"the ledger has no record with {error.object[:200]!r}: that is not valid Unicode text")


def closed_error() -> LedgerFailed:
    return LedgerFailed("the ledger is closed; open it again")


# ----------------------------------------------------------------------------------------------------
# How long the ledger keeps what, and when it is time to look. Pure: the stores do the forgetting.

_DAY: Final = 86_400.0
_LOOK_EVERY_SECONDS: Final = 300.0
_SLACK: Final = 20
"""A limit may be passed by a twentieth before it is looked at out of turn."""

_LEAST_OPEN_SECONDS: Final = 3600.0
EXPIRED_SECONDS: Final = 600.0
"""So long after its `expires_at` an execution that has not ended is forgotten: whoever held it has ended it by then."""

MAX_EXECUTION_BYTES: Final = 128 * MIB
"""What one execution may keep, unless told otherwise: the files it began with, its calls, its replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention limits. The executions that ended first are deleted first; all limits apply together."""

    age_seconds: float = 30 * _DAY
    """Since the last word of an execution that ended."""
    open_age_seconds: float | None = None
    """The same for one that is paused, or was cut off; `None`: as `age_seconds`, at least an hour. A younger one is
    never forgotten, unless it has expired."""
    total_bytes: int = 1024 * MIB
    executions: int = 100_000

    @property
    def open_seconds(self) -> float:
        """Age at which an execution that has not ended is forgotten."""
        return max(self.age_seconds, _LEAST_OPEN_SECONDS) if self.open_age_seconds is None else self.open_age_seconds


class Schedule:
    """Says when a look is due: after the first write, now and then, and sooner after many. Not for who only reads."""

    def __init__(self, keep: Retention) -> None:
        self.keep = keep
        self._next = time.monotonic() + _LOOK_EVERY_SECONDS
        self._is_first = True
        self._bytes = 0
        self._executions = 0

    def record_write(self, size_bytes: int, executions: int) -> None:
        self._bytes += size_bytes
        self._executions += executions

    def is_due(self) -> bool:
        """Whether to look now; a `True` starts the count anew."""
        is_due = (
            time.monotonic() >= self._next
            or (self._is_first and self._bytes > 0)
            or self._bytes > self.keep.total_bytes // _SLACK
            or self._executions > self.keep.executions // _SLACK
        )
        if is_due:
            self._next = time.monotonic() + _LOOK_EVERY_SECONDS
            self._bytes = self._executions = 0
            self._is_first = False
        return is_due

    def hasten(self) -> None:
        """There may be more to forget: look again after the next write."""
        self._next = 0.0
