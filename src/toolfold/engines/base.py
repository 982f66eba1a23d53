"""Engine contract between the runtime and the places where programs run: events, orders, protocols.

An engine opens a run; a run yields events and takes replies. The host loop owns
concurrency, cancelling, approval and pausing, once, for all engines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from toolfold.models import (
    MIB,
    Call,
    File,
    InstalledSet,
    Language,
    LibrarySet,
    Limits,
    Problem,
    Program,
    Reply,
    Status,
    ToolSpec,
    Value,
)

NOT_OPEN: Final = "the runtime is not open; write 'async with Runtime(...) as runtime:' or 'await runtime.open()'"
MOST_KEPT_GUESTS: Final = 64
MOST_KEPT_BYTES: Final = 1024 * MIB
"""Of guests that wait with the names of their sessions, and of their memory, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The program wrote to a stream. `cut_bytes` says how much the guest dropped after it."""

    text: str
    stream: Literal["stdout", "stderr"] = "stdout"
    cut_bytes: int = 0
    is_report: bool = False
    """The traceback that the program ended with: whole in the outcome, however little else is shown."""


class Called:
    """Tool calls of the program, one or a whole `gather` at once; each needs exactly one answer.

    Not a dataclass: there is one for each batch of calls, and this takes a third of the time to make.
    """

    __slots__ = ("calls",)
    __match_args__ = ("calls",)

    def __init__(self, *calls: Call) -> None:
        self.calls = calls

    def __eq__(self, other: object) -> bool:
        return self.calls == other.calls if isinstance(other, Called) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.calls)

    def __repr__(self) -> str:
        return f"Called({', '.join(map(repr, self.calls))})"


class ServedCall(NamedTuple):
    """A call that the engine has served, and the reply that the program has."""

    call: Call
    reply: Reply
    seconds: float


@dataclass(frozen=True, slots=True)
class Served:
    """The engine called tools itself, in this order; only where `Order.may_serve` lets it."""

    calls: Sequence[ServedCall]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing in the guest is ready to run until a reply comes. Stale unless all replies were seen."""

    replies_seen: int


@dataclass(frozen=True, slots=True)
class ReplayTape:
    """Tape entries that a replay needs besides the replies; sent before the calls that follow from them."""

    wakes: tuple[int, ...] = ()
    """How many replies each wake-up of the guest brought; 0 where a timer ran out. An engine may write it otherwise."""
    clocks: tuple[float, ...] = ()
    is_spoilt: bool = False
    """There was too much to keep: this execution cannot be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The program came to an end of its own making, or to a limit."""

    status: Status
    value: Value = None
    problem: Problem | None = None
    files: tuple[File, ...] = ()
    """New or changed."""
    deleted: frozenset[str] = frozenset()
    """Given files that the program certainly had and that are gone. What it never got, or hid, is not among them."""
    notes: tuple[str, ...] = ()
    """What the caller should know: a produced file that was left out, a limit not enforced."""
    unmade_calls: tuple[str, ...] = ()
    """Calls that the program reached, and that nothing awaited or used."""


@dataclass(frozen=True, slots=True)
class Died:
    """The guest broke, or broke the protocol; no word of its own is trusted after this."""

    detail: str


Event: TypeAlias = Printed | Called | Served | Waiting | ReplayTape | Ended | Died
"""What a run yields."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Order to an engine: a checked program and everything that it may use."""

    program: Program
    tools: Sequence[ToolSpec] = ()
    """The grant: a call of any other tool is a breach of the protocol."""
    limits: Limits = msgspec.field(default_factory=Limits)
    files: Sequence[File] = ()
    session: str = ""
    """Keep the guest, with its names and files, for the next order of the same session."""
    seed: int | None = None
    """Seeds the guest's randomness; `None` takes a fresh seed."""
    tape: ReplayTape | None = None
    """Makes the program repeatable and yields `ReplayTape`; one that is not empty is replayed first."""
    snapshot: bytes = b""
    """Go on from here instead of from the start; the tape is then what came after it. Its seal was opened."""
    report_waiting: bool = False
    """Yield `Waiting`; costs a message per batch of replies, so only where a pause is possible."""
    may_serve: bool = False
    """An engine that was given tools of its own may serve their calls, and yields `Served` for them."""
    on_frozen: Callable[[int], None] | None = None
    """Told how many bytes the program takes once it stands still in a pause. An engine may pass it by."""
    recorded: Sequence[Call] = ()
    """Calls on record, for a program whose processes may make them in another order this time: it is brought back."""
    preparation: Preparation | None = None
    """From `Capabilities.prepare`; `open` uses it up if it is for this program, and discards it otherwise."""


class Preparation(Protocol):
    """A program that an engine makes ready while the program is being checked; nothing of it runs before `open`."""

    def discard(self) -> None:
        """Free what the program will not use; harmless once `open` has used it up."""


class EngineTools(NamedTuple):
    """Tools that an engine may call where its programs are."""

    specs: tuple[ToolSpec, ...]
    described: bytes
    """For `make`, in the process that is to call them."""
    make: str
    """What makes them of that: `module:name`."""


class Run(Protocol):
    """One program on one engine.

    Iterate for events; answer each call of a `Called` once, in any order. The last event
    is one `Ended` or one `Died`. Neither method raises: a dead guest is `Died`.
    """

    def __aiter__(self) -> AsyncIterator[Event]: ...
    def answer(self, reply: Reply) -> None:
        """Hand a reply to the program; ignored once the run is over."""

    def hold(self) -> None:
        """The execution pauses: the program's timers stand still until `release`."""

    def release(self) -> None:
        """The execution continues."""

    def stop(self, status: Literal["timeout", "cancelled", "limit"], problem: Problem | None = None) -> None:
        """End the program now; the last event then is an `Ended` with this status."""

    def nudge(self, event: Waiting) -> None:
        """Yield an event of the host's own after those that are already due; ignored once the run is over."""


@runtime_checkable
class Timed(Protocol):
    """Optional protocol of a run whose timers can count the time that a caller takes for a call."""

    def release_after(self, seconds: float) -> None:
        """As `release`, with timers as if so much time had passed: those that ran out do so before any reply."""


@runtime_checkable
class Mortal(Protocol):
    """Optional protocol of a run whose guest can die during a pause, when nobody reads its events."""

    def is_gone(self) -> bool:
        """Whether it has."""


@runtime_checkable
class Freezable(Protocol):
    """Optional protocol of a run whose engine declares a `Capabilities.snapshot_version`."""

    async def freeze(self) -> bytes | None:
        """The held program, for `Order.snapshot`. Empty: it has to be replayed.

        `None`: it did not stand still, and yields `Waiting` again when it does.
        """


@runtime_checkable
class Audible(Protocol):
    """Optional protocol of a run whose guest buffers output; without it, `Printed` events come immediately."""

    def ask_for_output(self) -> None:
        """Have what was printed so far come now."""


class Engine(Protocol):
    """Engine contract: runs programs. Enter it before the first `open`; leaving it ends every guest."""

    @property
    def name(self) -> str: ...
    @property
    def isolation(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]:
        """Limits that this engine cannot enforce on this machine; part of every outcome's hints."""

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities beyond this contract. Read them after entering: `auto` chooses an engine only then."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def open(self, order: Order) -> AbstractAsyncContextManager[Run]:
        """Start a program. Leaving the context kills the guest and frees all it held."""

    def has_session(self, session: str) -> bool:
        """Whether a guest with the names of that session waits for its next program."""

    def end_session(self, session: str) -> None:
        """End the guest that the session keeps; harmless if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Settings that a runtime passes to an engine it creates by name, besides the engine's own options."""

    limits: Limits = field(default_factory=Limits)
    """Of programs that are given none of their own."""
    max_kept_guests: int = MOST_KEPT_GUESTS
    """How many guests may wait with the names of their sessions."""
    max_kept_bytes: int = MOST_KEPT_BYTES
    """How much memory those may hold together."""
    own_tools: Callable[[Sequence[str]], EngineTools] | None = None
    """Describes tools of the runtime, by their names; raises `UsageError` for those that only the runtime can call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities of an engine beyond the contract, declared only here. The default is a plain engine."""

    snapshot_version: str = ""
    """If set, runs are `Freezable`, and a snapshot loads wherever the version is the same; if empty, they replay."""
    modules: frozenset[str] | None = None
    """What programs can import beyond the standard library; `None` if the engine cannot tell."""
    library_sets: tuple[InstalledSet, ...] | None = None
    """Packages that were installed for programs; a program gets the one that its imports ask for. `None`: not here."""
    prepare: Callable[[str, Sequence[ToolSpec], Limits], Preparation | None] | None = None
    """Makes a program ready while it is being checked, for `Order.preparation`; `None` where that would not pay."""
    stocked: Stocked | None = None
    """Keeps guests waiting for programs."""
    languages: frozenset[Language] = frozenset({"python"})
    """That programs may be written in."""
    has_saved_programs: bool = True
    """A program can call saved ones, which run in its guest."""
    cores: int = 0
    """That it runs programs on, where those are not this machine's."""


class BorrowedEngine:
    """An engine of another runtime, which opens and closes it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # Any: whatever the engine has.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """Load of one node of a cluster."""

    address: str
    guests: int
    guest_memory_bytes: int
    programs: int
    """That run or are paused there now; those that wait for a core among them."""
    started: int
    """Programs that began there so far, those that came from another node among them."""
    moved: int
    """Programs that went on elsewhere because the node was lost."""


@dataclass(frozen=True, slots=True)
class Guests:
    """Number and memory use of an engine's guests now."""

    count: int = 0
    """Those that run, are paused or wait for a program."""
    memory_bytes: int = 0
    nodes: tuple[NodeLoad, ...] = ()
    """Of each node, where the engine has several."""


class Stocked(Protocol):
    """An engine that keeps guests waiting for programs."""

    async def preload(self, library_set: LibrarySet) -> None:
        """Have guests with these libraries wait, before the first program asks for them."""

    async def guests(self) -> Guests:
        """Counted and measured now."""


class EngineWrapper:
    """An engine that hands everything to another; subclass it and override what differs."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def isolation(self) -> str:
        return self.inner.isolation

    @property
    def notes(self) -> tuple[str, ...]:
        return self.inner.notes

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.inner.__aexit__(*exc)

    def open(self, order: Order) -> AbstractAsyncContextManager[Run]:
        return self.inner.open(order)

    def has_session(self, session: str) -> bool:
        return self.inner.has_session(session)

    def end_session(self, session: str) -> None:
        self.inner.end_session(session)
