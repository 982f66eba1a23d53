"""The body of a request: JSON, a form, parts with files, text or bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias
from urllib.parse import urlencode

import httpx2
import msgspec

from toolfold.models import Media, Value
from toolfold.sources.openapi.model import Argument, Body
from toolfold.sources.openapi.styles import query_pairs, text_of
from toolfold.sources.web.media import FORM, MULTIPART, is_json, plain

_Part: TypeAlias = tuple[str | None, bytes] | tuple[str | None, bytes, str]
"""A file's name, its content, its media type."""


def content(body: Body, value: Value, fields: Mapping[str, Argument]) -> tuple[bytes, str]:
    """The body and its content type.

    Args:
        body: How it is made.
        value: All of it: an object where arguments are its fields.
        fields: How each field is encoded, by the API's name for it.
    """
    mime = plain(body.mime)
    if is_json(mime):
        return msgspec.json.encode(value), body.mime
    if mime == FORM:
        return _form(_as_fields(value), fields).encode(), FORM
    if mime == MULTIPART:
        return _multipart(_as_fields(value), fields)
    concrete = "application/octet-stream" if "*" in mime else body.mime
    return _raw(value), value.mime if isinstance(value, Media) and "*" in mime else concrete


def _as_fields(value: Value) -> Mapping[str, Value]:
    return value if isinstance(value, Mapping) else {"body": value}


def _raw(value: Value) -> bytes:
    match value:
        case bytes():
            return value
        case Media():
            return value.data
    return text_of(value).encode()


def _form(value: Mapping[str, Value], fields: Mapping[str, Argument]) -> str:
    pairs: list[str] = []
    for name, item in value.items():
        field = fields.get(name)
        if field is not None and field.style:
            pairs += [f"{key}={one}" for key, one in query_pairs(field, item)]
            continue
        for one in item if isinstance(item, list) else [item]:
            pairs.append(urlencode({name: text_of(one)}))
    return "&".join(pairs)


def _multipart(value: Mapping[str, Value], fields: Mapping[str, Argument]) -> tuple[bytes, str]:
    parts = [(name, part) for name, item in value.items() for part in _parts(name, item, fields.get(name))]
    # The library writes the parts; where they go is said later. One part at least, or it writes no body.
    made = httpx2.Request("POST", "http://localhost", files=parts or [("", (None, b""))])
    return made.read(), made.headers["content-type"]


def _parts(name: str, value: Value, field: Argument | None) -> Iterator[_Part]:
    mime = "" if field is None else field.mime.partition(",")[0].strip()
    for item in value if isinstance(value, list) else [value]:
        match item:
            case Media():
                yield item.name or name, item.data, mime or item.mime
            case bytes():
                yield name, item, mime or "application/octet-stream"
            case dict():
                yield None, msgspec.json.encode(item), mime or "application/json"
            case _ if mime:
                yield None, text_of(item).encode(), mime
            case _:
                yield None, text_of(item).encode()
