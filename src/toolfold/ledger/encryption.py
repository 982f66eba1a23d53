"""Encryption at rest (AES-256-GCM): bodies of a ledger, snapshots of paused programs, and the user's own key.

What is sealed: programs, tools, arguments, replies, output, files. What stays readable, because
listings and fences need it: ids, times, states, statuses, sessions, tenants, counts and sizes.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import secrets
import stat
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from toolfold.errors import SealBroken, UsageError, install_extra
from toolfold.models import MIB, Call
from toolfold.protocol.codec import decoder, encode

SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
# 16 MiB and about 50 ms: paid once per opened ledger.
_SCRYPT: Final = {"n": 2**14, "r": 8, "p": 1}


class Seal:
    """Seals and opens bodies with one key. Make it with `seal_with`."""

    def __init__(self, key: bytes) -> None:
        try:
            # An optional extra: a ledger without a key does not need it.
            from cryptography.exceptions import InvalidTag  # noqa: PLC0415
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        except ImportError as error:
            raise UsageError(
                f"a sealed ledger needs the package 'cryptography'; give no key, or {install_extra('sealed')}"
            ) from error
        self._key = key
        self._cipher = AESGCM(key)
        self._invalid = InvalidTag
        self._digest_key = hashlib.blake2b(key, person=b"toolfold-names").digest()[:32]
        self.key_id = hashlib.blake2b(key, person=b"toolfold-key-id", digest_size=8).hexdigest()
        """Tells keys apart and says nothing about the key."""

    def seal(self, body: bytes, place: str) -> bytes:
        """Encrypt a body, which opens only at the same place."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, body, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """Decrypt a body, or raise `SealBroken` if it is not what was sealed at this place."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place.encode())
        except self._invalid as error:
            raise SealBroken(
                f"the ledger's record {place!r} was changed since it was sealed; do not trust it"
            ) from error

    def subkey(self, person: bytes) -> bytes:
        """A key for one other use, from which this one cannot be found."""
        return hashlib.blake2b(self._key, person=person, digest_size=_KEY_BYTES).digest()

    def digest(self, body: bytes) -> bytes:
        """A name for a body that does not let its content be guessed and tried."""
        return hashlib.blake2b(body, digest_size=16, key=self._digest_key).digest()


class NoSeal:
    """Seal of a ledger without a key, which leaves bodies as they are."""

    key_id = ""

    def seal(self, body: bytes, place: str) -> bytes:
        return body

    def open(self, sealed: bytes, place: str) -> bytes:
        return sealed

    def digest(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, digest_size=16).digest()


def seal_with(key: bytes | str, salt: bytes) -> Seal:
    """A seal from 32 bytes, from their base64, or from a passphrase and the ledger's salt.

    Raises:
        UsageError: The key is empty or has the wrong length, or `cryptography` is missing.
    """
    if isinstance(key, str):
        key = _decode_key(key) or _derive_key(key, salt)
    if len(key) != _KEY_BYTES:
        raise UsageError(f"a ledger key has 32 bytes, not {len(key)}; give a passphrase as text")
    return Seal(key)


def _decode_key(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _derive_key(passphrase: str, salt: bytes) -> bytes:
    if not passphrase:
        raise UsageError("the ledger's key is empty; give 32 bytes as base64, or a passphrase")
    return hashlib.scrypt(passphrase.encode(), salt=salt, dklen=_KEY_BYTES, **_SCRYPT)


# ----------------------------------------------------------------------------------------------------
# Snapshots of paused programs at rest: sealed, and bound to the one pause that they are of.
#
# A snapshot is a machine's state: whoever writes one decides what runs. So none is kept without a seal, also in a
# ledger without a key, and none is given to an engine before its seal was opened.

_FORMAT: Final = 1
_PERSON: Final = b"toolfold-pauses"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSnapshot:
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


def lock(snapshot: ProgramSnapshot, pause: Pause, seal: Seal) -> bytes:
    """Snapshot as the ledger keeps it."""
    body = encode(snapshot)
    label = _label(pause, seal)
    packed = zlib.compress(body, 6 if len(body) < MIB else 1)
    return _encoder.encode(_Envelope(label, seal.seal(packed, _place(label))))


def unlock(data: bytes, pause: Pause, seal: Seal) -> ProgramSnapshot | None:
    """The snapshot of this pause; `None` where another key or engine made it, so that the program is replayed.

    Raises:
        SealBroken: It is of another execution, tenant or pause, or was changed. Nothing of it was loaded.
    """
    try:
        envelope = _envelopes.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _refusal(pause, "was changed since it was sealed") from error
    label, expected = envelope.label, _label(pause, seal)
    if label.execution_id != expected.execution_id:
        raise _refusal(pause, f"is of execution {label.execution_id!r}")
    if label.tenant != expected.tenant:
        raise _refusal(pause, "is of another tenant")
    if label.round != expected.round:
        raise _refusal(pause, f"is of pause {label.round}, and the record is at pause {expected.round}")
    if label != expected:
        return None
    try:
        packed = seal.open(envelope.sealed, _place(expected))
    except (SealBroken, ValueError) as error:  # the latter where too little is left to hold a nonce
        raise _refusal(pause, "was changed since it was sealed") from error
    return _snapshot.decode(zlib.decompress(packed))


def relock(data: bytes, old: Seal, new: Seal) -> bytes:
    """The same snapshot with another key; one that `old` did not seal stays as it is, and is not loaded.

    Raises:
        SealBroken: It was changed.
    """
    try:
        envelope = _envelopes.decode(data)
        if envelope.label.key_id != old.key_id:
            return data
        packed = old.open(envelope.sealed, _place(envelope.label))
    except (SealBroken, msgspec.MsgspecError, ValueError) as error:
        raise SealBroken("a snapshot in the ledger was changed since it was sealed; do not trust it") from error
    label = msgspec.structs.replace(envelope.label, key_id=new.key_id)
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
_snapshot: Final = decoder(ProgramSnapshot)


# ----------------------------------------------------------------------------------------------------
# The user's own key: seals what must be sealed where nobody gave a key. It never leaves the user's state folder.
#
# Not beside the ledger: a ledger that came from elsewhere must not bring the key to what it holds.

_NAME: Final = "snapshot.key"

_log = logging.getLogger("toolfold.ledger")


def own_key() -> bytes | None:
    """32 bytes, made at the first use; `None` where the folder cannot be written or is not to be trusted."""
    # Imported here: who names a ledger and gives a key does not need it.
    import platformdirs  # noqa: PLC0415

    folder = platformdirs.user_state_path("toolfold")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _read(folder / _NAME)
        if key is None:
            write_once(folder / _NAME, secrets.token_bytes(_KEY_BYTES))
            key = _read(folder / _NAME)
        return key
    except OSError as error:
        _log.warning("paused programs are replayed, not restored from snapshots: no key (%s)", error.strerror)
        return None


def _read(path: Path) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        is_ours = not hasattr(os, "geteuid") or (facts.st_uid == os.geteuid() and not facts.st_mode & 0o077)
        if not stat.S_ISREG(facts.st_mode) or not is_ours:
            raise PermissionError(1, f"{_NAME!r} can be read by others")
        key = file.read(_KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise OSError(5, f"{_NAME!r} holds no key")
    return key


def write_once(path: Path, data: bytes) -> None:
    """A file with these bytes, whole or not at all; one that is there stays. Of several processes one is first."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
