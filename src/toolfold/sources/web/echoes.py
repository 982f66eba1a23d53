"""Secrets of a source, taken out of whatever comes back: replies, headers, errors, and the log lines of libraries."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import msgspec

from toolfold.models import Media, Value
from toolfold.sources.web.media import CODECS
from toolfold.tools.error_text import MASK, SHORTEST, forms_of, hide, masked

_CHATTY: Final = (
    "httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "hpack.hpack", "hpack.table", "h2",
)  # fmt: skip
"""Loggers that tell of URLs and headers."""
_ENCODINGS: Final = (*(codec for codec in CODECS if codec != "utf-16"), "utf-32-le", "utf-32-be", "cp037")
"""How a secret may stand in bytes. The last three are never decoded here, but a program can decode them itself."""
_Replacements: TypeAlias = tuple[tuple[bytes, bytes], ...]


class Echoes:
    """Replaces each secret of 8 characters or more, raw or encoded, with `***`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._forms: tuple[str, ...] = ()
        self._in_bytes: _Replacements = ()
        self._in_json: _Replacements = ()
        self._numbers: frozenset[str] = frozenset()
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Take this one out as well, from now on; in errors of every tool, too."""
        if len(secret) < SHORTEST or secret in self._secrets:
            return
        hide([secret])
        _guard_logs()
        self._secrets.add(secret)
        self._forms = forms_of(frozenset(self._secrets))
        self._in_bytes = _in_bytes(self._forms)
        self._in_json = tuple(
            (msgspec.json.encode(form)[1:-1], MASK.encode()) for form in self._forms if _is_utf8(form)
        )
        self._numbers = frozenset(one for one in self._secrets if one.isdecimal())

    def out_of_text(self, text: str) -> str:
        """The text without them."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def out_of_bytes(self, data: bytes) -> bytes:
        """The same for bytes, in every encoding that text has here; before decoding, whatever the label says."""
        return _replaced(data, self._in_bytes)

    def out_of_json(self, data: bytes) -> Value:
        """The same for JSON, as a value; without a step in Python for each of its parts.

        Raises:
            msgspec.DecodeError: it is not JSON.
        """
        value: Value = msgspec.json.decode(data)
        if self._numbers or not self._in_json:
            return self.out_of(value) if self._numbers else value
        # Written again, for a secret may hide behind escapes.
        written = msgspec.json.encode(value)
        clean = _replaced(written, self._in_json)
        if clean == written:
            return value
        try:
            masked_value: Value = msgspec.json.decode(clean)
        except msgspec.DecodeError:  # the secret has quotes and commas, as JSON does
            return self.out_of(value)
        return masked_value

    def out_of(self, value: Value) -> Value:
        """The same for a whole reply; keys too."""
        match value:
            case str():
                return self.out_of_text(value)
            case bytes():
                return self.out_of_bytes(value)
            case list():
                return [self.out_of(item) for item in value]
            case dict():
                return {self.out_of_text(key): self.out_of(item) for key, item in value.items()}
            case Media():
                return replace(
                    value,
                    data=self.out_of_bytes(value.data),
                    uri=self.out_of_text(value.uri),
                    name=self.out_of_text(value.name),
                )
            case int() | float() if self._numbers and any(one in str(value) for one in self._numbers):
                return MASK
        return value


def _in_bytes(forms: Sequence[str]) -> _Replacements:
    """Each form in each encoding, in the order of the forms: the longest first."""
    found: dict[bytes, bytes] = {}
    for form in forms:
        found.setdefault(form.encode("utf-8", "surrogateescape"), MASK.encode())
        for encoding in _ENCODINGS:
            with contextlib.suppress(UnicodeEncodeError):  # then no text in this encoding can have it
                found.setdefault(form.encode(encoding), MASK.encode(encoding))
    return tuple(found.items())


def _replaced(data: bytes, replacements: _Replacements) -> bytes:
    has_zeros = b"\0" in data
    for raw, mask in replacements:
        if (has_zeros or b"\0" not in raw) and raw in data:
            data = data.replace(raw, mask)
    return data


def _is_utf8(form: str) -> bool:
    try:
        form.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Masking(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = masked(record.getMessage()), None
        return True


_masking: Final = _Masking()


def _guard_logs() -> None:
    for name in _CHATTY:
        logging.getLogger(name).addFilter(_masking)
