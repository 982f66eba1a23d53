"""Codec of ledger records: MessagePack and back, exactly, with marks for what it does not know.

Encoding an entry freezes it: a tool may change the value that it returned as soon as it has
returned it. It is done on the event loop, so the common case is one call into C.

Values are written as maps: a new field with a default needs no new format, and old records stay readable.
Array-like structs take new fields last. The ledger's `FORMAT` rises only for tables and columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from toolfold.ledger.base import Entry, ReplyEntry, StartRecord
from toolfold.models import CallRecord, Outcome, ToolSpec
from toolfold.protocol.codec import decoder, encode

_PLAIN: Final = b"\0"
_DEFLATED: Final = b"\1"
_WORTH_DEFLATING_BYTES: Final = 512
_SAMPLE_BYTES: Final = 4096


class _Format5Start(msgspec.Struct, gc=False):
    door: str = ""


def is_call(body: bytes) -> bool:
    """Whether an encoded entry is a `CallEntry`."""
    return body[1] == 0


def join_entries(bodies: Sequence[bytes]) -> bytes:
    """Encoded entries as one body for `decode_entries`."""
    return b"".join((b"\xdd", len(bodies).to_bytes(4, "big"), *bodies))


def count_entries(body: bytes) -> int:
    return int.from_bytes(body[1:5], "big")


def encode_start(start_record: StartRecord) -> bytes:
    """All but the grant, which many executions share: that is `encode_tools`."""
    return encode(msgspec.structs.replace(start_record, tools=()))


def decode_start(body: bytes, tools: tuple[ToolSpec, ...]) -> StartRecord:
    start_record = _starts.decode(body)
    # As format 5 calls it: a migration does not open the bodies, which may be many and sealed.
    interface = start_record.interface or _format5_starts.decode(body).door
    return msgspec.structs.replace(start_record, tools=tools, interface=interface)


def encode_outcome(outcome: Outcome, call_records: Mapping[int, CallRecord]) -> bytes:
    """An outcome; its calls are left out where they are the ones that the entries hold already."""
    is_recorded = len(outcome.calls) == len(call_records) and all(
        call_records.get(call.id) is call for call in outcome.calls
    )
    return encode((replace(outcome, calls=()) if is_recorded and call_records else outcome, not is_recorded))


def encode_truncated(outcome: Outcome, max_bytes: int) -> bytes:
    """An outcome that is too large to keep: how it ended, and a hint that says what is missing."""
    hint = f"the ledger kept no value, output, calls and files: together they are more than {max_bytes} bytes"
    truncated_outcome = replace(
        outcome, value=None, stdout="", stderr="", calls=(), files=(), hints=(*outcome.hints, hint)
    )
    return encode((truncated_outcome, True))


def decode_outcome(body: bytes, entries: Sequence[Entry]) -> Outcome:
    """An outcome, with the calls that its entries hold."""
    outcome, has_own_calls = _outcomes.decode(body)
    if has_own_calls:
        return outcome
    records = (entry.record for entry in entries if isinstance(entry, ReplyEntry))
    return replace(outcome, calls=tuple(sorted(records, key=lambda record: record.id)))


def deflate(body: bytes) -> bytes:
    """A body for the disk: records repeat their field names, so most shrink to a fifth."""
    if len(body) < _WORTH_DEFLATING_BYTES:
        return _PLAIN + body
    middle = len(body) // 2
    sample = body[middle : middle + _SAMPLE_BYTES]
    # Pictures and archives do not shrink, and finding that out takes a second for the largest.
    if len(body) > 4 * _SAMPLE_BYTES and len(zlib.compress(sample, 1)) > 0.9 * len(sample):
        return _PLAIN + body
    return _DEFLATED + zlib.compress(body, 1)


def inflate(data: bytes) -> bytes:
    return zlib.decompress(memoryview(data)[1:]) if data[:1] == _DEFLATED else data[1:]


encode_entry = encode_replies = encode_tools = encode
decode_entries: Final[Callable[[bytes], list[Entry]]] = decoder(list[Entry]).decode
decode_tools: Final[Callable[[bytes], tuple[ToolSpec, ...]]] = decoder(tuple[ToolSpec, ...]).decode
_starts: Final = decoder(StartRecord)
_format5_starts: Final = decoder(_Format5Start)
_outcomes: Final = decoder(tuple[Outcome, bool])
