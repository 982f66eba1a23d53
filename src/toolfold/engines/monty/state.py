"""A paused program on Monty as bytes: Monty's own dump, and what the driver held of it. Replies are not in it.

Loading a dump that somebody made is running what they wrote: bytes come here only after their seal was opened.
"""

from __future__ import annotations

from typing import Final

import msgspec

from toolfold.models import MIB

FORMAT: Final = 1
MAX_SNAPSHOT_BYTES: Final = 8 * MIB
"""A program with a larger heap is replayed instead."""


class Timer(msgspec.Struct, array_like=True, frozen=True):
    """A sleep or a deadline that has not run out."""

    seconds_left: float
    call_id: int
    error: str


class Stored(msgspec.Struct, array_like=True, frozen=True):
    """A file of the program's own tree."""

    path: str
    data: bytes
    is_text: bool


class State(msgspec.Struct, array_like=True, frozen=True):
    """Calls are known by two ids: ours, which count from 1, and Monty's."""

    dump: bytes
    calls: int
    seen: int
    open: dict[int, int]
    """Calls without a reply: our id to Monty's."""
    kept: dict[int, int]
    """Calls whose reply has come and was not taken yet: our id to Monty's. The reply is in the record."""
    settled: dict[int, str]
    """What the host settled itself and Monty has not taken yet: its id to an exception, or to nothing."""
    timers: list[Timer]
    waits_for: int
    """Our id of the synchronous call that the program stands in; 0 if it awaits."""
    kept_bytes: dict[str, int]
    files: list[Stored]
    folders: list[str]
    media: list[str]
    """Ids of the media that the program was given."""


def encode(state: State) -> bytes:
    """The bytes for a snapshot; none if they would be too many."""
    size = len(state.dump) + sum(len(file.data) for file in state.files)
    return b"" if size > MAX_SNAPSHOT_BYTES else _encoder.encode(state)


def decode(body: bytes) -> State:
    """What `encode` was given."""
    return _decoder.decode(body)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(State, strict=False)
