"""Bodies encrypted at rest: AES-256-GCM, bound to the execution and the row that they stand in.

What is sealed: programs, tools, arguments, replies, output, files. What stays readable, because
listings and fences need it: ids, times, states, statuses, sessions, tenants, counts and sizes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from typing import Final

from toolfold.errors import SealBroken, UsageError, install_extra

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
        """The body, encrypted; it opens only at the same place."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, body, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """What `seal` was given.

        Raises:
            SealBroken: It is not what was sealed at this place.
        """
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
    """The same for a ledger without a key: bodies stay as they are."""

    key_id = ""

    def seal(self, body: bytes, place: str) -> bytes:
        """The body."""
        return body

    def open(self, sealed: bytes, place: str) -> bytes:
        """The body."""
        return sealed

    def digest(self, body: bytes) -> bytes:
        """A name for a body."""
        return hashlib.blake2b(body, digest_size=16).digest()


def seal_with(key: bytes | str, salt: bytes) -> Seal:
    """A seal from 32 bytes, from their base64, or from a passphrase and the ledger's salt.

    Raises:
        UsageError: The key is empty or has the wrong length, or `cryptography` is missing.
    """
    if isinstance(key, str):
        key = _decoded(key) or _derived(key, salt)
    if len(key) != _KEY_BYTES:
        raise UsageError(f"a ledger key has 32 bytes, not {len(key)}; give a passphrase as text")
    return Seal(key)


def _decoded(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None


def _derived(passphrase: str, salt: bytes) -> bytes:
    if not passphrase:
        raise UsageError("the ledger's key is empty; give 32 bytes as base64, or a passphrase")
    return hashlib.scrypt(passphrase.encode(), salt=salt, dklen=_KEY_BYTES, **_SCRYPT)
