"""Media types and charsets: the type that is preferred where an operation has several, the codec of a text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
_AS_TEXT: Final = frozenset({"application/xml", "application/yaml", "application/x-yaml", "application/javascript"})
_CODECS: Final[Mapping[str, str]] = {
    "utf-8": "utf-8 utf8 us-ascii ascii",
    "utf-16": "utf-16 utf16",
    "utf-16-le": "utf-16le",
    "utf-16-be": "utf-16be",
    "latin-1": "iso-8859-1 iso8859-1 latin1 latin-1",
    "iso8859-2": "iso-8859-2 iso8859-2 latin2",
    "iso8859-15": "iso-8859-15 iso8859-15 latin9",
    "cp1250": "windows-1250 cp1250",
    "cp1251": "windows-1251 cp1251",
    "cp1252": "windows-1252 cp1252",
    "cp1253": "windows-1253 cp1253 iso-8859-7",
    "cp1254": "windows-1254 cp1254 iso-8859-9",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "cp932": "shift_jis shift-jis sjis windows-31j",
    "euc_jp": "euc-jp",
    "cp949": "euc-kr ks_c_5601-1987",
    "gb18030": "gb2312 gbk gb18030",
    "big5": "big5",
}
"""Codecs and the charsets that they read; each takes time in proportion to the text. `punycode` does not."""
CODECS: Final = tuple(_CODECS)
_CODEC_OF: Final = {label: codec for codec, labels in _CODECS.items() for label in labels.split()}


def codec_of(content_type: str) -> str:
    """The codec for the charset of a content type; UTF-8 for one that is unknown or not said.

    Python's registry is not asked: it has codecs that take quadratic time, and remembers every name that it is given.
    """
    _, _, after = content_type.lower().partition("charset=")
    return _CODEC_OF.get(after.partition(";")[0].strip().strip("\"'"), "utf-8")


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
