"""One reply as a line that says what is in it: keys and types, no values. Pure.

Unlike a learned shape it is for the program's own author, who was given the reply: every key may be named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from toolfold.models import Media, Value

LONGEST: Final = 600
_LONGEST_KEY: Final = 40
_MOST_KEYS: Final = 30
_MOST_ITEMS: Final = 30
_MAX_TEXT_DEPTH: Final = 4
_NAMES: Final = {str: "str", bool: "bool", int: "int", float: "float", bytes: "bytes", type(None): "None"}


def shape_text(value: Value) -> str:
    """`{id: int, tags: list[str] (3 items)}`; a key with `?` is missing from some items of its list."""
    if isinstance(value, str):
        return f"str ({len(value):,} characters)"
    for depth in range(_MAX_TEXT_DEPTH, -1, -1):
        text = _text([value], depth)
        if len(text) <= LONGEST:
            return text
    return f"{text[: LONGEST - 3]}..."


def _text(values: Sequence[Value], depth: int) -> str:
    """What these values, all from one place, have in common."""
    kinds = dict.fromkeys(_one_of_each(values, depth))
    return " | ".join(kinds) if kinds else "Any"


def _one_of_each(values: Sequence[Value], depth: int) -> Iterator[str]:
    records = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    if records:
        yield _record(records, depth)
    if lists:
        yield _list(lists, depth)
    for value in values:
        if isinstance(value, Media):
            yield value.kind
        elif type(value) in _NAMES:
            yield _NAMES[type(value)]


def _list(lists: Sequence[list[Value]], depth: int) -> str:
    items = [item for one in lists for item in one[:_MOST_ITEMS]][:_MOST_ITEMS]
    inner = f"list[{_text(items, depth - 1)}]" if items and depth > 0 else "list"
    longest = max(map(len, lists))
    if not longest:
        return "list (empty)"
    count = f"{longest:,} items" if longest > 1 else "1 item"
    return f"{inner} ({'up to ' if len(lists) > 1 else ''}{count})"


def _record(records: Sequence[dict[str, Value]], depth: int) -> str:
    if not any(records):
        return "{}"
    keys = list(dict.fromkeys(key for record in records for key in record))
    shown = keys[:_MOST_KEYS]
    if depth <= 0:
        parts = [_name(key) for key in shown]
    else:
        parts = [f"{_name(key)}{_mark(key, records)}: {_inner(key, records, depth)}" for key in shown]
    more = [f"... {len(keys) - len(shown):,} more keys"] if len(keys) > len(shown) else []
    return f"{{{', '.join([*parts, *more])}}}"


def _mark(key: str, records: Sequence[dict[str, Value]]) -> str:
    return "" if all(key in record for record in records) else "?"


def _inner(key: str, records: Sequence[dict[str, Value]], depth: int) -> str:
    return _text([record[key] for record in records if key in record], depth - 1)


def _name(key: str) -> str:
    """As it is where that is a plain word; anything else quoted, so that it cannot pass for our own text."""
    short = key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]}…"
    return short if short.isidentifier() and short.isascii() else ascii(short)
