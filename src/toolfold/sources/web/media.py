"""Media types: which one is sent or asked for where an operation has several. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
_AS_TEXT: Final = frozenset({"application/xml", "application/yaml", "application/x-yaml", "application/javascript"})


def plain(mime: str) -> str:
    """Without parameters, in lower case."""
    return mime.partition(";")[0].strip().lower()


def is_json(mime: str) -> bool:
    """Whether its content is JSON: `application/json`, `application/problem+json`, ..."""
    mime = plain(mime)
    return mime == JSON or mime.endswith(("+json", "/json"))


def is_text(mime: str) -> bool:
    """Whether its content is text."""
    mime = plain(mime)
    return mime.startswith("text/") or mime in _AS_TEXT or mime.endswith("+xml")


def preferred(mimes: Iterable[str]) -> str:
    """The one that programs can make most of; where two are alike, the first."""
    return min(mimes, key=_rank)


def _rank(mime: str) -> int:
    mime = plain(mime)
    if mime == JSON:
        return 0
    if is_json(mime):
        return 1
    if mime == MULTIPART:
        return 2
    if mime == FORM:
        return 3
    return 4 if is_text(mime) else 5
