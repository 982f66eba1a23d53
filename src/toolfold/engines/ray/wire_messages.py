"""Wire messages between the runtime and a node, as bytes. Pure: no Ray, no event loop.

Rules:
1. A message is a list of parts, each with all that is said of one run, so that one broken part breaks one run.
2. Nothing from a node is unpickled. Its size is checked before it is read, by typed decoders; values are walked once
   more, because a decoder of `Any` lets through what no program of ours can say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from toolfold.models import File, LibrarySet, Limits, Media, Problem, Program, Reply, Status, ToolSpec
from toolfold.protocol.codec import MAX_DEPTH, Violation, decoder, encode

MAX_MESSAGE_BYTES: Final = 1024 * 1024 * 1024


# To a node. Trusted there: whoever can call an actor can run anything on its node.
class Grant(msgspec.Struct, array_like=True, tag=0):
    """Tools under a number: many programs have the same."""

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
    """`None` if there is no tape."""
    clocks: tuple[int | float, ...]
    """Those of nanoseconds are integers, and must stay so."""
    report_waiting: bool
    may_serve: bool = False
    settled: tuple[int, ...] = ()
    """Calls of the node's own tools that another node has answered; their replies follow."""


class RunReply(msgspec.Struct, array_like=True, tag=2):
    """A reply for a program."""

    run: int
    reply: Reply


class RunCommand(msgspec.Struct, array_like=True, tag=3):
    """Command to a run without further data."""

    run: int
    verb: Literal["hold", "release", "output", "close"]
    seconds: float = 0.0
    """For a release: how much of the pause counts for the program's timers."""


class Stop(msgspec.Struct, array_like=True, tag=4):
    """End a program."""

    run: int
    status: Literal["timeout", "cancelled", "limit"]
    problem: Problem | None


class EndSession(msgspec.Struct, array_like=True, tag=5):
    """End the guest of a session."""

    session: str


class Preload(msgspec.Struct, array_like=True, tag=6):
    """Prepare guests with these libraries."""

    library_set: LibrarySet


class Forget(msgspec.Struct, array_like=True, tag=7):
    """Drop a grant."""

    number: int


ToNode: TypeAlias = Grant | Open | RunReply | RunCommand | Stop | EndSession | Preload | Forget
_to_node: Final = decoder(list[ToNode])


def pack(messages: list[ToNode]) -> bytes:
    return encode(messages)


def unpack(body: bytes) -> list[ToNode]:
    return _to_node.decode(body)


# From a node. Hostile.
class WirePrinted(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=0, gc=False):
    """`Printed`."""

    text: str
    stream: Literal["stdout", "stderr"]
    cut_bytes: int
    is_report: bool


class WireCalled(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=1, gc=False):
    """`Called`: id, place in the grant, arguments, line and saved program of each call."""

    calls: list[tuple[int, int, dict[str, Any], int, int]]


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
    unmade_calls: tuple[str, ...] = ()


class WireDied(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=5, gc=False):
    """`Died`, or the engine of the node broke before the program began."""

    detail: str
    is_unbegun: bool


class WireFrozen(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=6, gc=False):
    """Memory of a program that is frozen in a pause."""

    held_bytes: int


class WireGone(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=7, gc=False):
    """Guest of a session that had to make room; not part of any run."""

    session: str


class WireRoom(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=8, gc=False):
    """Load of the node, not part of any run."""

    guests: int
    guest_bytes: int
    free_bytes: int


class WireReply(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """Reply to a call that the node has served."""

    call_id: int
    place: int
    """Number of replies that the program had before it."""
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
    """Reply together with its call, as in `WireCalled`."""

    tool: int
    arguments: dict[str, Any]
    line: int
    within: int
    traceback: str = ""


class WireAnswered(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=10, gc=False):
    """Calls that were answered one after the other, and the tape of that time."""

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
"""Types of values that need no check."""
_part: Final = decoder(list[FromNode])
_parts: Final = msgspec.msgpack.Decoder(list[tuple[int, bytes]])
_join: Final = msgspec.msgpack.Encoder()
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


def part(message: FromNode) -> bytes:
    return encode((message,))


CallOut: TypeAlias = tuple[int, int, msgspec.Raw, int, int]
"""A call as in `WireCalled`, with its arguments as `raw` made them."""


# Any: whatever a program sends.
def raw(value: Any) -> msgspec.Raw:
    """Encode a field of what is encoded later."""
    return msgspec.Raw(encode(value))


def called_part(calls: list[CallOut]) -> bytes:
    return encode(((WireCalled.__struct_config__.tag, calls),))


def answered_part(wakes: list[int], clocks: list[int | float], is_spoilt: bool, records: list[msgspec.Raw]) -> bytes:
    return encode(((WireAnswered.__struct_config__.tag, wakes, clocks, is_spoilt, records),))


def merged(parts: list[bytes]) -> bytes:
    """Join parts of one run, which is shorter, and quicker to read."""
    if len(parts) == 1:
        return parts[0]
    # Each is a list of one, whose head takes a byte; in their place comes the head of a longer list.
    return b"\xdd" + len(parts).to_bytes(4) + b"".join([memoryview(body)[1:] for body in parts])


def join(parts: list[tuple[int, bytes]]) -> bytes:
    """A message of parts, each with its run."""
    return _join.encode(parts)


def split(body: object) -> list[tuple[int, bytes]]:
    """The parts of a message; `Violation` if it is none."""
    if not isinstance(body, bytes) or len(body) > MAX_MESSAGE_BYTES:
        raise Violation("a message that is not bytes, or too many")
    try:
        return _parts.decode(body)
    except _UNREADABLE as error:
        raise Violation(f"a message that cannot be read: {error}") from None


def read(body: bytes) -> list[FromNode]:
    """The messages in one part; `Violation` if no node of ours says that."""
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
            for _, _, arguments, *_ in message.calls:
                _check(arguments, 0)
        elif isinstance(message, _WITH_VALUE):
            _check(message.value, 0)
    return messages


def _check(value: object, depth: int) -> None:
    if depth > MAX_DEPTH + 1:
        raise Violation(f"a value nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        if any(type(key) is not str for key in value):
            raise Violation("an object with a key that is not text")
        items: Iterable[object] = value.values()
    elif isinstance(value, list):
        items = value
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise Violation("a number that is not finite")
        return
    elif type(value) in _LEAVES:
        return
    else:
        raise Violation(f"a value of type {type(value).__name__!r}")
    for item in items:
        if type(item) not in _LEAVES:
            _check(item, depth + 1)
