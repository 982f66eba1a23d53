"""Wire messages between the runtime and a node, as bytes. Pure: no Ray, no event loop.

Rules:
1. A message is a list of parts, each with all that is said of one run, so that one broken part breaks one run.
2. Nothing from a node is unpickled. Its bytes are weighed before they are read, and read by typed decoders; values
   are walked once more, because a decoder of anything lets through what no program of ours can say.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, TypeAlias

import msgspec

from toolfold.engines.base import ReplayTape
from toolfold.models import File, LibrarySet, Limits, Media, Problem, Program, Reply, Status, ToolSpec
from toolfold.protocol.codec import MAX_DEPTH, Violation, decoder, encode

MAX_MESSAGE_BYTES: Final = 1024 * 1024 * 1024


# To a node. Trusted there: whoever can call an actor can run anything on its node.
class Grant(msgspec.Struct, array_like=True, tag=0):
    """Tools by a number: many programs have the same."""

    number: int
    tools: tuple[ToolSpec, ...]
    own: frozenset[str] = frozenset()
    """Those that the node may call itself."""


class Open(msgspec.Struct, array_like=True, tag=1):
    """Start a program."""

    run: int
    grant: int
    program: Program
    limits: Limits
    files: tuple[File, ...]
    session: str
    seed: int
    wakes: tuple[int, ...] | None
    """`None`: without a tape."""
    clocks: tuple[int | float, ...]
    report_waiting: bool
    may_serve: bool = False
    settled: tuple[int, ...] = ()
    """Calls of the node's own tools whose replies are among those that follow: it was on another node before."""


class RunReply(msgspec.Struct, array_like=True, tag=2):
    """A reply for a program."""

    run: int
    reply: Reply


class RunCommand(msgspec.Struct, array_like=True, tag=3):
    """Command to a run without further data."""

    run: int
    verb: Literal["hold", "release", "output", "close"]
    seconds: float = 0.0
    """Of the pause that a release ends: how much counts for the program's timers."""


class Stop(msgspec.Struct, array_like=True, tag=4):
    """End a program."""

    run: int
    status: Literal["timeout", "cancelled", "limit"]
    problem: Problem | None


class EndSession(msgspec.Struct, array_like=True, tag=5):
    """End the guest of a session."""

    session: str


class Preload(msgspec.Struct, array_like=True, tag=6):
    """Have guests with these libraries wait."""

    library_set: LibrarySet


class Forget(msgspec.Struct, array_like=True, tag=7):
    """A grant that no program will have any more."""

    number: int


ToNode: TypeAlias = Grant | Open | RunReply | RunCommand | Stop | EndSession | Preload | Forget
_to_node: Final = decoder(list[ToNode])


def pack(messages: list[ToNode]) -> bytes:
    """For `unpack` on a node."""
    return encode(messages)


def unpack(body: bytes) -> list[ToNode]:
    """Unpack messages of the runtime."""
    return _to_node.decode(body)


# From a node. Hostile.
class WirePrinted(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=0, gc=False):
    """`Printed`."""

    text: str
    stream: Literal["stdout", "stderr"]
    cut_bytes: int
    is_report: bool


class WireCalled(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=1, gc=False):
    """`Called`: id, place in the grant, arguments and line of each call."""

    calls: list[tuple[int, int, dict[str, Any], int]]


class WireWaiting(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=2, gc=False):
    """`Waiting`."""

    replies_seen: int


class WireTaped(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=3, gc=False):
    """`ReplayTape`."""

    wakes: tuple[int, ...]
    clocks: tuple[int | float, ...]
    is_spoilt: bool


class WireEnded(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=4, gc=False):
    """`Ended`, and whether the session has a guest now."""

    status: Status
    value: Any
    problem: Problem | None
    files: tuple[File, ...]
    deleted: frozenset[str]
    notes: tuple[str, ...]
    keeps_session: bool


class WireDied(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=5, gc=False):
    """`Died`, or the engine of the node broke before the program began."""

    detail: str
    is_unbegun: bool


class WireFrozen(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=6, gc=False):
    """How much the program takes that stands still in a pause."""

    held_bytes: int


class WireGone(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=7, gc=False):
    """A guest that a session kept had to make room; not of any run."""

    session: str


class WireRoom(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=8, gc=False):
    """Load of the node, not part of any run."""

    guests: int
    guest_bytes: int
    free_bytes: int


class WireReply(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """The reply to a call that the node has served."""

    call_id: int
    place: int
    """How many replies the program had before it."""
    seconds: float
    value: Any
    error: str | None
    size_bytes: int
    attempts: int
    breaker: str


class WireServed(WireReply, tag=9, gc=False):
    """`Served`, of a call that was told before."""

    traceback: str = ""
    """As in `Reply`. Last, here and in `WireRecord`: only the last fields can have a default."""


class WireRecord(WireReply, gc=False):
    """The same with the rest of the call, as in `WireCalled`."""

    tool: int
    arguments: dict[str, Any]
    line: int
    traceback: str = ""


class WireAnswered(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=10, gc=False):
    """Calls that were made and answered one after the other, and all that came on tape meanwhile."""

    wakes: list[int]
    clocks: list[int | float]
    is_spoilt: bool
    records: list[WireRecord]


FromNode: TypeAlias = (
    WirePrinted
    | WireCalled
    | WireWaiting
    | WireTaped
    | WireEnded
    | WireDied
    | WireFrozen
    | WireGone
    | WireRoom
    | WireServed
    | WireAnswered
)
_WITH_VALUE: Final = (WireServed, WireEnded)
_LEAVES: Final = frozenset({str, int, bool, bytes, Media, type(None)})
"""Nothing in these needs a look."""
_part: Final = decoder(list[FromNode])
_parts: Final = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, bytes]]])
_join: Final = msgspec.msgpack.Encoder()
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


def part(message: FromNode) -> bytes:
    """One part of a message of a node."""
    return encode((message,))


CallOut: TypeAlias = tuple[int, int, msgspec.Raw, int]
"""A call as in `WireCalled`, with its arguments as `raw` made them."""


# Any: whatever a program sends.
def raw(value: Any) -> msgspec.Raw:
    """Encoded now, to be a field of what is encoded later."""
    return msgspec.Raw(encode(value))


def called_part(calls: list[CallOut]) -> bytes:
    """A part with a `WireCalled`."""
    return encode(((WireCalled.__struct_config__.tag, calls),))


def answered_part(wakes: list[int], clocks: list[int | float], is_spoilt: bool, records: list[msgspec.Raw]) -> bytes:
    """A part with a `WireAnswered`."""
    return encode(((WireAnswered.__struct_config__.tag, wakes, clocks, is_spoilt, records),))


def merged(parts: list[bytes]) -> bytes:
    """Parts of one run as one, which is shorter, and quicker to read."""
    if len(parts) == 1:
        return parts[0]
    # Each is a list of one, whose head takes a byte; in their place comes the head of a longer list.
    return b"\xdd" + len(parts).to_bytes(4) + b"".join([memoryview(body)[1:] for body in parts])


def join(number: int, parts: list[tuple[int, bytes]]) -> bytes:
    """A message: its number, and parts with the run of each."""
    return _join.encode((number, parts))


def split(body: object) -> tuple[int, list[tuple[int, bytes]]]:
    """The number and the parts of a message.

    Raises:
        Violation: It is not one.
    """
    if not isinstance(body, bytes) or len(body) > MAX_MESSAGE_BYTES:
        raise Violation("a message that is not bytes, or too many")
    try:
        return _parts.decode(body)
    except _UNREADABLE as error:
        raise Violation(f"a message that cannot be read: {error}") from None


def read(body: bytes) -> list[FromNode]:
    """All that is said in one part.

    Raises:
        Violation: No node of ours says that.
    """
    try:
        messages = _part.decode(body)
    except _UNREADABLE as error:
        raise Violation(f"a part that cannot be read: {error}") from None
    for message in messages:
        if type(message) is WireAnswered:
            for record in message.records:
                _check(record.arguments, 0)
                _check(record.value, 0)
        elif isinstance(message, WireCalled):
            for _, _, arguments, _ in message.calls:
                _check(arguments, 0)
        elif isinstance(message, _WITH_VALUE):
            _check(message.value, 0)
    return messages


def _check(value: object, depth: int) -> None:
    if depth > MAX_DEPTH + 1:
        raise Violation(f"a value nested more than {MAX_DEPTH} levels deep")
    kind = type(value)
    if kind is dict:
        assert isinstance(value, dict)
        for key, item in value.items():
            if type(key) is not str:
                raise Violation("an object with a key that is not text")
            if type(item) not in _LEAVES:
                _check(item, depth + 1)
    elif kind is list:
        assert isinstance(value, list)
        for item in value:
            if type(item) not in _LEAVES:
                _check(item, depth + 1)
    elif kind is float:
        assert isinstance(value, float)
        if not math.isfinite(value):
            raise Violation("a number that is not finite")
    elif kind not in _LEAVES:
        raise Violation(f"a value of type {kind.__name__!r}")


def tape_of(message: Open) -> ReplayTape | None:
    """The tape that a program is started with."""
    # `ReplayTape.clocks` says float; a clock in nanoseconds is an int, and must stay one.
    return None if message.wakes is None else ReplayTape(message.wakes, message.clocks)
