"""Codec of frames and values: messages to bytes and back, with size and depth limits.

Every byte from a guest is hostile: JSON only, parsed by typed decoders, never unpickled.
What goes to the guest is `marshal`, because the host is trusted and nothing decodes faster.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gc
import marshal
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeVar

import msgspec

from toolfold.errors import UsageError
from toolfold.models import Media, Reply, ToolSpec, Value
from toolfold_guest.shared.wire_format import (
    BYTES_KEY,
    CALLS,
    ENDED,
    HEADER,
    HOLD,
    MEDIA_KEY,
    PLAIN,
    PRINTED,
    PROGRAM,
    RELEASE,
    REPLY,
    START,
    UNPACKED,
)

MAX_DEPTH: Final = 256
_FRAME_DEPTH: Final = 3
"""Of the frame itself, around the arguments of a call."""
_MARK: Final = b"\\u0000"


class Violation(Exception):
    """The guest said something that no guest of ours says; it is not to be trusted any more."""


# Arrays instead of objects: no key can be missing, doubled or unknown, and none has to be sent.
# `forbid_unknown_fields` makes one item too many a breach. `gc=False`: they hold plain JSON, which has no cycles.
class WireCall(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """One call in a frame; `tool` is an index into the grant, so no name can be forged."""

    id: int
    tool: int
    arguments: dict[str, Any]
    line: int = 0
    """Of the program; 0 where the guest cannot tell."""
    within: int = 0
    """The call of the saved program that makes this one; 0 in any other program."""


class CallsFrame(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=CALLS, gc=False):
    """All calls made since the last frame; `replies_seen` is -1 unless the guest waits."""

    stdout: str
    stderr: str
    calls: list[WireCall]
    replies_seen: int
    tape: tuple[list[int], list[int | float]] | int | None
    """Wake-ups and clock reads since the last frame; a number when there were too many to keep."""


class PrintedFrame(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=PRINTED, gc=False):
    """Output that could not wait for a call."""

    stdout: str
    stderr: str


class EndedFrame(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=ENDED, gc=False):
    """The guest's own word of how it ended."""

    stdout: str
    stderr: str
    status: str
    value: Any
    error: str
    """The whole report: a traceback, or the reason why there is no value."""
    cut_bytes: tuple[int, int]
    message: str = ""
    """The exception's type and message, which are only the end of the report or in its middle."""
    hints: list[str] = []
    unmade: list[str] = []


class UnpackedFrame(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=UNPACKED, gc=False):
    """The files that came with the start are in the data folder."""

    stdout: ClassVar[str] = ""
    stderr: ClassVar[str] = ""


Frame = CallsFrame | PrintedFrame | EndedFrame | UnpackedFrame

_decoder: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Frame)


# The same shapes with `Raw` in place of values: how large each value is can then be told without building any.
class _WireCallSizes(msgspec.Struct, array_like=True, gc=False):
    id: int
    tool: int
    arguments: msgspec.Raw


class _CallsSizes(msgspec.Struct, array_like=True, tag=CALLS, gc=False):
    stdout: str
    stderr: str
    calls: list[_WireCallSizes]


class _PrintedSizes(msgspec.Struct, array_like=True, tag=PRINTED, gc=False):
    stdout: str
    stderr: str


class _EndedSizes(msgspec.Struct, array_like=True, tag=ENDED, gc=False):
    stdout: str
    stderr: str
    status: str
    value: msgspec.Raw


_sizes_decoder: msgspec.json.Decoder[_CallsSizes | _PrintedSizes | _EndedSizes] = msgspec.json.Decoder(
    _CallsSizes | _PrintedSizes | _EndedSizes
)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


def decode_frame(body: bytes | memoryview) -> Frame:
    """One frame's body to a message. One that is large has been weighed before.

    Raises:
        Violation: It is not JSON, not one of the shapes, or nested too deeply.
    """
    # The typed decoder refuses NaN, lone surrogates, bad UTF-8, and `true` where a number is wanted.
    try:
        frame = _decoder.decode(body) if len(body) <= LARGE_BYTES else _decode_large(body)
    except _UNREADABLE as error:
        raise Violation(f"a frame that cannot be read: {error}") from None
    # Only where there are enough brackets to be too deep: to walk over every frame costs more than to decode it.
    raw = bytes(body)
    if MAX_DEPTH < len(raw) <= LARGE_BYTES and raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        check_depth(weigh(raw).depth)
    # Most frames hold no bytes and no media; looking for the mark is one search in C.
    if _MARK in raw:
        _revive_frame(frame)
    return frame


def check_depth(depth: int) -> None:
    """Refuse a frame that is nested more deeply than any guest of ours nests one."""
    if depth > MAX_DEPTH + _FRAME_DEPTH:
        raise Violation(f"a value nested more than {MAX_DEPTH} levels deep")


def largest_value(body: bytes) -> int:
    """Bytes of the largest value in a frame: the arguments of one call, or what the program ended with."""
    try:
        frame = _sizes_decoder.decode(body)
    except _UNREADABLE as error:
        raise Violation(f"a frame that cannot be read: {error}") from None
    if isinstance(frame, _CallsSizes):
        return max((len(memoryview(call.arguments)) for call in frame.calls), default=0)
    return len(memoryview(frame.value)) if isinstance(frame, _EndedSizes) else 0


def _decode_large(body: bytes | memoryview) -> Frame:
    """Without collections, which would find only live objects, at twice the time."""
    # The host may have switched it off itself, and then it must stay off.
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _decoder.decode(body)
    finally:
        if was_on:
            gc.enable()


def _revive_frame(frame: Frame) -> None:
    if isinstance(frame, CallsFrame):
        for call in frame.calls:
            call.arguments = {_own_key(key): _revive(item) for key, item in call.arguments.items()}
    elif isinstance(frame, EndedFrame):
        frame.value = _revive(frame.value)


def _revive(value: Any) -> Value:
    if isinstance(value, list):
        return [_revive(item) for item in value]
    if not isinstance(value, dict):
        return value
    # Our own forms are objects with one key that starts with NUL; a key of the program's has a NUL more.
    if len(value) == 1:
        ((key, item),) = value.items()
        if key == BYTES_KEY:
            return _bytes(item)
        if key == MEDIA_KEY:
            return _media(item)
    return {_own_key(key): _revive(item) for key, item in value.items()}


def _own_key(key: str) -> str:
    return key.removeprefix("\0")


def _bytes(text: Any) -> bytes:
    try:
        # Without `validate` Python drops what is no base64 and gives other bytes than were sent.
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Violation("bytes that are not base64") from None


def _media(parts: Any) -> Media:
    try:
        # Whatever the program put there: five items of the right types, or nothing at all.
        kind, mime, data, uri, name = parts
        if kind not in ("image", "audio", "link", "file") or not all(isinstance(p, str) for p in (mime, uri, name)):
            raise ValueError(kind)
    except (TypeError, ValueError):
        raise Violation("media of an unknown shape") from None
    return Media(kind=kind, mime=mime, data=_bytes(data), uri=uri, name=name)


def framed(message: tuple[Any, ...], version: int = marshal.version) -> bytes:
    """A message for the guest, with its length in front."""
    body = marshal.dumps(message, version)
    return HEADER.pack(len(body)) + body


# Made once: a pause of a thousand programs sends the same bytes a thousand times.
HOLD_FRAME: Final = framed((HOLD,))
RELEASE_FRAME: Final = framed((RELEASE, 0.0))


def release_frame(seconds: float) -> bytes:
    """The end of a pause of which so much counts for the program's timers."""
    return framed((RELEASE, seconds)) if seconds else RELEASE_FRAME


def encode_facts(facts: Iterable[tuple[Any, ...]]) -> bytes:
    """What `tool_facts` says of some tools. Apart from the message: many programs have the same tools."""
    return marshal.dumps(list(facts), PLAIN)


def encode_program(text: str, facts: bytes) -> bytes:
    """The message with which a guest makes a program ready; nothing of it runs yet."""
    return framed((PROGRAM, text, facts), PLAIN)


def encode_start(options: Mapping[str, Any]) -> bytes:
    """The message that makes it run the program."""
    return framed((START, dict(options)), PLAIN)


def encode_reply(reply: Reply) -> bytes:
    """A reply as the guest reads it; media become tuples, which no tool value is made of."""
    # The guest raises `ToolError` with this text, and these attributes, where the call was made.
    if reply.error is not None:
        value = reply.value
        details = value if isinstance(value, dict) and value.keys() == {"status", "body"} else False
        return framed((REPLY, reply.call_id, False, reply.error, details))
    try:
        body = marshal.dumps((REPLY, reply.call_id, True, reply.value, False))
        return HEADER.pack(len(body)) + body  # as `framed` does: there is one for each call
    except ValueError:
        return framed((REPLY, reply.call_id, True, _flatten_media(reply.value), True))


def _flatten_media(value: Value) -> Value:
    if isinstance(value, Media):
        return (value.kind, value.mime, value.data, value.uri, value.name)
    if isinstance(value, list):
        return [_flatten_media(item) for item in value]
    if isinstance(value, dict):
        return {key: _flatten_media(item) for key, item in value.items()}
    return value


def tool_facts(spec: ToolSpec, words: tuple[str, str] | None = None) -> tuple[Any, ...]:
    """What the guest is told of a tool, in the order of its `ToolFacts`.

    `words` are the signature and the docstring; only programs that look at them need them.
    """
    parameters = spec.parameters
    properties = spec.input_schema.get("properties", {})
    takes_object = bool(parameters) and _accepts_object(properties[parameters[0]])
    names = (spec.name, spec.python_name, spec.aliases, spec.domain, spec.short_name)
    facts = (*names, parameters, spec.required, takes_object)
    signature, doc = words or ("", spec.description)
    # Fields at the end that say nothing are left out: a grant of 5,000 tools is sent with every program.
    if spec.source == "program":
        return (*facts, doc, signature, False, True)
    if spec.read_only:
        return (*facts, doc, signature, True)
    return (*facts, doc, signature) if signature else (*facts, doc)


def _accepts_object(schema: Any) -> bool:
    """Whether a value of this schema may be an object; a schema that does not say may."""
    if not isinstance(schema, Mapping):
        return True
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return any(_accepts_object(option) for option in schema[key])
    kind = schema.get("type")
    if kind is None:
        return "enum" not in schema and "const" not in schema
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


# ----------------------------------------------------------------------------------------------------
# What a frame would cost the host, found by counting bytes before anything is decoded.
#
# Three bytes of an empty list are some seventy in memory, and a walk over millions of values takes seconds. What is
# counted here is exact for valid JSON; at the first byte that is not valid the decoder stops anyway.

LARGE_BYTES: Final = 64 * 1024
"""A smaller frame cannot cost much, whatever is in it."""
MAX_VALUES: Final = 1_000_000
MAX_CONTAINERS: Final = 250_000
FRAME_COST_BYTES: Final = 512
"""Of each frame, for the work that it makes."""
_VALUE_BYTES: Final = 32
_CONTAINER_BYTES: Final = 64

_STEPS: Final = [0] * 256
for _byte, _step in ((b"[", 1), (b"{", 1), (b"]", -1), (b"}", -1)):
    _STEPS[_byte[0]] = _step
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if not _STEPS[byte])


class Weight(NamedTuple):
    """The parts of a frame, not counting what is inside of strings."""

    values: int
    """Commas: one less than its items in each list and object."""
    containers: int
    depth: int

    @property
    def is_too_much(self) -> bool:
        """Whether decoding it would hold up all other programs."""
        return self.values > MAX_VALUES or self.containers > MAX_CONTAINERS

    @property
    def memory_bytes(self) -> int:
        """About what its parts take in memory, besides their characters."""
        return self.values * _VALUE_BYTES + self.containers * _CONTAINER_BYTES


_FAR_TOO_MUCH: Final = Weight(values=MAX_VALUES + 1, containers=0, depth=0)


def weigh(raw: bytes) -> Weight:
    """The weight of a frame; one that is far too heavy is not counted to its end."""
    # An escaped quote would end its string too early. Pairs of backslashes go first: a quote after one is a real end.
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    if plain.count(b'"') > 4 * MAX_VALUES:  # a key and a value for each comma, at most
        return _FAR_TOO_MUCH
    # Every other piece between quotes is outside of strings: brackets and commas in a text count for nothing.
    outside = b"".join(plain.split(b'"')[::2])
    weight = Weight(values=outside.count(b","), containers=outside.count(b"[") + outside.count(b"{"), depth=0)
    if weight.is_too_much:
        return weight
    return weight._replace(depth=depth_of(outside))


def depth_of(outside: bytes) -> int:
    """How deeply brackets are nested in a text without strings."""
    # One pass in C over brackets alone; a loop over all bytes would hold up the host for seconds.
    brackets = outside.translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


# ----------------------------------------------------------------------------------------------------
# Values to bytes and back, exactly: MessagePack, with marks for what it does not know; mostly one call into C.
#
# What is read back is checked for its types, but not for its size: whoever reads bytes that others wrote does that
# first.

# How a map of five that begins with the key `kind` looks; a `Media` that was taken for a plain dataclass.
_LOOKS_LIKE_MEDIA: Final = b"\x85\xa4kind"
_MEDIA: Final = 1
_BIG_INT: Final = 2

_T = TypeVar("_T")


# Any: whatever a record holds.
def encode(obj: Any) -> bytes:
    """Dataclasses, JSON values, `bytes` and `Media`, nested at will.

    Raises:
        UsageError: naming the type that cannot be kept.
    """
    try:
        raw = _encoder.encode(obj)
        return _encoder.encode(_mark(obj)) if _LOOKS_LIKE_MEDIA in raw else raw
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(_mark(obj))


def encode_ordered(obj: Any) -> bytes:
    """The same, with keys in one order: equal bytes for equal values."""
    try:
        return _ordered.encode(obj)
    except (OverflowError, UnicodeEncodeError):
        return _ordered.encode(_mark(obj))


def _mark(obj: Any) -> Any:
    """The same with marks where MessagePack has no form, or where ours would be taken for another."""
    match obj:
        case Media():
            fields = (obj.kind, obj.mime, obj.data, obj.uri, obj.name)
            return msgspec.msgpack.Ext(_MEDIA, _encoder.encode(_mark(fields)))
        case str():
            # Only a broken tool's error text has a lone surrogate; it is shown, not compared.
            return obj.encode("utf-8", "backslashreplace").decode()
        case int() if not -(2**63) <= obj < 2**64:
            return msgspec.msgpack.Ext(_BIG_INT, hex(obj).encode())
        case list() | tuple():
            return [_mark(item) for item in obj]
        case Mapping():
            return {_mark(key): _mark(item) for key, item in obj.items()}
        case msgspec.Struct() if obj.__struct_config__.array_like:
            values = [_mark(getattr(obj, name)) for name in obj.__struct_fields__]
            tag = obj.__struct_config__.tag
            return values if tag is None else [tag, *values]
        case msgspec.Struct():
            return {name: _mark(getattr(obj, name)) for name in obj.__struct_fields__}
        case _ if dataclasses.is_dataclass(obj):
            return {field.name: _mark(getattr(obj, field.name)) for field in dataclasses.fields(obj)}
        case _:
            return obj


def _packing_revive(code: int, data: memoryview) -> Any:
    if code == _MEDIA:
        kind, mime, content, uri, name = _packing_media.decode(data)
        return Media(kind=kind, mime=mime, data=content, uri=uri, name=name)
    if code == _BIG_INT:
        return int(bytes(data), 16)
    return msgspec.msgpack.Ext(code, bytes(data))


def _refuse(obj: Any) -> Any:
    if isinstance(obj, Mapping):
        return dict(obj)
    raise UsageError(f"a value of type {type(obj).__name__!r} cannot be kept; JSON values, bytes and Media can")


def decoder(kind: type[_T]) -> msgspec.msgpack.Decoder[_T]:
    """Reads what `encode` wrote of one kind."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_packing_revive)


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_refuse)
_ordered: Final = msgspec.msgpack.Encoder(enc_hook=_refuse, order="deterministic")
_packing_media: Final = msgspec.msgpack.Decoder(tuple[Literal["image", "audio", "link", "file"], str, bytes, str, str])
