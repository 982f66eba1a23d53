"""Secrets of a source, taken out of whatever comes back: replies, headers, errors, and the log lines of libraries."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from toolfold.models import Media, Value
from toolfold.tools.masking import MASK, SHORTEST, forms_of, hide, masked

_CHATTY: Final = (
    "httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "hpack.hpack", "hpack.table", "h2",
)  # fmt: skip
"""Loggers that tell of URLs and headers."""


class Echoes:
    """Replaces each secret of 8 characters or more, raw or encoded, with `***`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._forms: tuple[str, ...] = ()
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
        self._numbers = frozenset(one for one in self._secrets if one.isdecimal())

    def out_of_text(self, text: str) -> str:
        """The text without them."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def out_of_bytes(self, data: bytes) -> bytes:
        """The same for what is no text."""
        for form in self._forms:
            raw = form.encode("utf-8", "surrogateescape")
            if raw in data:
                data = data.replace(raw, MASK.encode())
        return data

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


class _Masking(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = masked(record.getMessage()), None
        return True


_masking: Final = _Masking()


def _guard_logs() -> None:
    for name in _CHATTY:
        logging.getLogger(name).addFilter(_masking)
