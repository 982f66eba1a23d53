"""Snapshots of paused programs at rest: sealed, and bound to the one pause that they are of.

A snapshot is a machine's state: whoever writes one decides what runs. So none is kept without a seal, also in a
ledger without a key, and none is given to an engine before its seal was opened.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

import msgspec

from toolfold.errors import SealBroken, UsageError
from toolfold.ledger.keys import own_key
from toolfold.ledger.seal import NoSeal, Seal
from toolfold.models import MIB, Call
from toolfold.protocol.codec import decoder, encode

_FORMAT: Final = 1
_PERSON: Final = b"toolfold-pauses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A program at a pause: as its engine wrote it down, and what the host held of it."""

    state: bytes
    calls_made: int
    open_calls: tuple[Call, ...] = ()
    """Those that wait for the outside, also for its yes."""
    stdout: str = ""
    stderr: str = ""
    stdout_cut_bytes: int = 0
    stderr_cut_bytes: int = 0
    seconds_left: float = 0.0
    """Of the wall clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The one pause that a snapshot is of; all of it is bound into the seal."""

    execution_id: str
    tenant: str
    round: int
    """Counts the pauses of an execution that have a snapshot, from 1."""
    engine: str
    """Name and version: no other reads the state."""


class _Label(msgspec.Struct, array_like=True, frozen=True):
    format: int
    key_id: str
    engine: str
    execution_id: str
    tenant: str
    round: int


class _Envelope(msgspec.Struct, array_like=True, frozen=True):
    label: _Label
    sealed: bytes


def seal_for_snapshots(seal: Seal | NoSeal) -> Seal | None:
    """With a ledger's key a key made from it, else one of this user's own; `None` where there can be none."""
    key = seal.subkey(_PERSON) if isinstance(seal, Seal) else own_key()
    return None if key is None else seal_with_bytes(key)


def seal_with_bytes(key: bytes) -> Seal | None:
    """A seal, or `None` where `cryptography` is not installed: programs are then replayed."""
    try:
        return Seal(key)
    except UsageError:
        return None


def lock(snapshot: Snapshot, pause: Pause, seal: Seal) -> bytes:
    """What the ledger keeps."""
    body = encode(snapshot)
    label = _label(pause, seal)
    packed = zlib.compress(body, 6 if len(body) < MIB else 1)
    return _encoder.encode(_Envelope(label, seal.seal(packed, _place(label))))


def unlock(kept: bytes, pause: Pause, seal: Seal) -> Snapshot | None:
    """The snapshot of this pause; `None` where another key or engine made it, so that the program is replayed.

    Raises:
        SealBroken: It is of another execution, tenant or pause, or was changed. Nothing of it was loaded.
    """
    try:
        found = _envelopes.decode(kept)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _refusal(pause, "was changed since it was sealed") from error
    label, wanted = found.label, _label(pause, seal)
    if label.execution_id != wanted.execution_id:
        raise _refusal(pause, f"is of execution {label.execution_id!r}")
    if label.tenant != wanted.tenant:
        raise _refusal(pause, "is of another tenant")
    if label.round != wanted.round:
        raise _refusal(pause, f"is of pause {label.round}, and the record is at pause {wanted.round}")
    if label != wanted:
        return None
    try:
        packed = seal.open(found.sealed, _place(wanted))
    except (SealBroken, ValueError) as error:  # the latter where too little is left to hold a nonce
        raise _refusal(pause, "was changed since it was sealed") from error
    return _snapshot.decode(zlib.decompress(packed))


def relock(kept: bytes, old: Seal, new: Seal) -> bytes:
    """The same snapshot with another key; one that `old` did not seal stays as it is, and is not loaded.

    Raises:
        SealBroken: It was changed.
    """
    try:
        found = _envelopes.decode(kept)
        if found.label.key_id != old.key_id:
            return kept
        packed = old.open(found.sealed, _place(found.label))
    except (SealBroken, msgspec.MsgspecError, ValueError) as error:
        raise SealBroken("a snapshot in the ledger was changed since it was sealed; do not trust it") from error
    label = msgspec.structs.replace(found.label, key_id=new.key_id)
    return _encoder.encode(_Envelope(label, new.seal(packed, _place(label))))


def _label(pause: Pause, seal: Seal) -> _Label:
    return _Label(_FORMAT, seal.key_id, pause.engine, pause.execution_id, pause.tenant, pause.round)


def _place(label: _Label) -> str:
    return "snapshot/" + msgspec.json.encode(label).decode()


def _refusal(pause: Pause, why: str) -> SealBroken:
    return SealBroken(
        f"the snapshot kept for execution {pause.execution_id!r} {why}; it was not loaded: "
        "look after the ledger, and start the program anew"
    )


_encoder: Final = msgspec.msgpack.Encoder()
_envelopes: Final = msgspec.msgpack.Decoder(_Envelope)
_snapshot: Final = decoder(Snapshot)
