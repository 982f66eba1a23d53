"""Continuation tokens: execution, round, tenant and expiry, signed but not secret."""

from __future__ import annotations

import base64
import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from toolfold.errors import UsageError
from toolfold.interfaces.http.outcome_bodies import INVALID_TOKEN, Refusal
from toolfold.ledger.encryption import write_once
from toolfold.ledger.ledger_factory import default_path, is_shared

if TYPE_CHECKING:
    from toolfold.config.model import Config
    from toolfold.ledger.base import Ledger

_KEY_BYTES: Final = 32
_LONGEST: Final = 2048


class Token(msgspec.Struct, frozen=True, array_like=True):
    """The state of a paused execution when its client got the answer."""

    execution_id: str
    round: int
    replies: int
    """How many the client had given by then: after a restart this tells a new continuation from an old one."""
    session: str
    tenant: str
    expires_at: float
    """Seconds since 1970."""
    seconds_left: float | None = None
    """Of the program's own time; tokens of older versions do not say."""


class Signer:
    """Signs payloads of one purpose, and reads those that it or another one with its key has signed."""

    def __init__(self, key: bytes, purpose: bytes = b"") -> None:
        # Copied for each: `hmac.digest` would let other threads run, and wait to get the interpreter back.
        self._hmac = hmac.new(key, purpose, "sha256")

    def sign(self, payload: bytes) -> str:
        text = _text(payload)
        return f"{text}.{self._signature(text)}"

    def read(self, text: str) -> bytes:
        """The payload; raises `ValueError` unless its signature is right."""
        payload, _, signature = text.rpartition(".")
        # Compared as bytes: text that is not ASCII would raise. Nothing is parsed before the signature is right.
        is_ours = hmac.compare_digest(
            signature.encode("utf-8", "surrogatepass"), self._signature(payload[:_LONGEST]).encode()
        )
        if not is_ours or len(payload) > _LONGEST:
            raise ValueError("wrong signature")
        return base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))

    def _signature(self, payload: str) -> str:
        signing = self._hmac.copy()
        signing.update(payload.encode("utf-8", "surrogatepass"))
        return _text(signing.digest())


class Tokens:
    """Signs and reads tokens, with a key of at least 16 bytes."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES // 2:
            raise UsageError("the key for continuation tokens is shorter than 16 bytes; give a longer one")
        self._signer = Signer(key)
        self._decoder = msgspec.json.Decoder(Token)
        self._last: tuple[str, Token | None] = "", None
        """One continuation reads its token several times."""

    def sign(self, token: Token) -> str:
        return self._signer.sign(msgspec.json.encode(token))

    def read(self, text: str) -> Token:
        """The token, if this server or one with its key made it. Expiry is the caller's to judge."""
        last, token = self._last
        if token is not None and last == text:
            return token
        try:
            token = self._decoder.decode(self._signer.read(text))
        except (msgspec.DecodeError, ValueError) as error:
            raise Refusal(400, INVALID_TOKEN) from error
        self._last = text, token
        return token

    def read_for(self, text: str, tenant: str, session: str | None = None) -> Token:
        """The same, if it belongs to the tenant, and to the session where one is named."""
        token = self.read(text)
        if not _is_same(token.tenant, tenant) or (session is not None and not _is_same(token.session, session)):
            raise Refusal(400, INVALID_TOKEN)
        return token


def _is_same(first: str, second: str) -> bool:
    # Both are signed, and so no secret of ours; compared as one all the same.
    return hmac.compare_digest(first.encode("utf-8", "surrogatepass"), second.encode("utf-8", "surrogatepass"))


def signing_key(config: Config, ledger: Ledger, name: str) -> bytes:
    """The configured key; else one under this name, the same after a restart and at all replicas."""
    if config.http.token_key:
        return config.http.token_key.get_secret_value().encode()
    if is_shared(ledger):
        return ledger.shared_secret(name)
    return load_or_create_key(default_path().parent / f"{name}.key")


def load_or_create_key(path: Path) -> bytes:
    """The key in a file, made at the first start: tokens outlive a restart."""
    try:
        if not path.exists():
            write_once(path, os.urandom(_KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the key for tokens cannot be kept: {(error.strerror or '').lower()}") from error
    if len(key) != _KEY_BYTES:
        raise UsageError(f"the key file {path.name!r} is damaged; remove it, and open executions end")
    return key


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
