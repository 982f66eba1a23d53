"""Values as OpenAPI's styles write them into paths, queries, headers and cookies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from toolfold.models import Media, Value
from toolfold.sources.openapi.model import Argument

_RESERVED: Final = ":/?[]@!$'()*,;"
"""Signs that `allowReserved` leaves as they are; not those that end a query's value."""
_BETWEEN: Final = {"spaceDelimited": "%20", "pipeDelimited": "|", "form": ","}


def text_of(value: Value) -> str:
    """One value as text: JSON's words for true, false and null, and JSON for what has parts."""
    match value:
        case str():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case Media():
            return value.data.decode("utf-8", "replace")
    return msgspec.json.encode(value).decode()


def path_part(argument: Argument, value: Value) -> str:
    """What stands in a path's place: `simple`, `label` or `matrix`."""
    if argument.mime:
        return _escaped(_as_json(value))
    items = [_escaped(text_of(item)) for item in value] if isinstance(value, list) else None
    pairs = _pairs(value) if isinstance(value, dict) else None
    name = _escaped(argument.wire)
    match argument.style:
        case "label":
            return "." + _joined(value, items, pairs, "." if argument.explode else ",", explode=argument.explode)
        case "matrix":
            if pairs is not None and argument.explode:
                return "".join(f";{key}={item}" for key, item in pairs)
            if items is not None and argument.explode:
                return "".join(f";{name}={item}" for item in items)
            return f";{name}=" + _joined(value, items, pairs, ",", explode=False)
    return _joined(value, items, pairs, ",", explode=argument.explode)


def query_pairs(argument: Argument, value: Value) -> Iterator[tuple[str, str]]:
    """Names and values, encoded."""
    safe = _RESERVED if argument.allow_reserved else ""
    name = quote(argument.wire, safe="[]" if argument.style == "deepObject" else "")
    if argument.mime:
        yield name, quote(_as_json(value), safe=safe)
    elif isinstance(value, list):
        items = [quote(text_of(item), safe=safe) for item in value]
        if argument.explode or argument.style == "deepObject":
            yield from ((name, item) for item in items)
        elif items:
            yield name, _BETWEEN.get(argument.style, ",").join(items)
    elif isinstance(value, dict):
        yield from _query_of_object(argument, name, value, safe)
    else:
        yield name, quote(text_of(value), safe=safe)


def header_text(argument: Argument, value: Value) -> str:
    """The value of a header."""
    if argument.mime:
        return _as_json(value)
    if isinstance(value, list):
        return ",".join(map(text_of, value))
    if isinstance(value, dict):
        between = "=" if argument.explode else ","
        return ",".join(f"{key}{between}{text_of(item)}" for key, item in value.items())
    return text_of(value)


def _query_of_object(argument: Argument, name: str, value: Mapping[str, Value], safe: str) -> Iterator[tuple[str, str]]:
    if argument.style == "deepObject":
        yield from _deep(name, value, safe)
    elif argument.explode:
        yield from ((quote(key, safe=""), quote(text_of(item), safe=safe)) for key, item in value.items())
    else:
        between = _BETWEEN.get(argument.style, ",")
        yield (
            name,
            between.join(quote(part, safe=safe) for pair in value.items() for part in (pair[0], text_of(pair[1]))),
        )


def _deep(name: str, value: Value, safe: str) -> Iterator[tuple[str, str]]:
    """`filter[size][min]=1`; the items of a list have one name."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _deep(f"{name}[{quote(key, safe='')}]", item, safe)
    elif isinstance(value, list):
        for item in value:
            yield from _deep(name, item, safe)
    else:
        yield name, quote(text_of(value), safe=safe)


def _joined(
    value: Value, items: list[str] | None, pairs: list[tuple[str, str]] | None, between: str, *, explode: bool
) -> str:
    if items is not None:
        return between.join(items)
    if pairs is not None:
        return between.join(f"{key}={item}" if explode else f"{key},{item}" for key, item in pairs)
    return _escaped(text_of(value))


def _pairs(value: Mapping[str, Value]) -> list[tuple[str, str]]:
    return [(_escaped(key), _escaped(text_of(item))) for key, item in value.items()]


def _escaped(text: str) -> str:
    return quote(text, safe="")


def _as_json(value: Value) -> str:
    return msgspec.json.encode(value).decode()
