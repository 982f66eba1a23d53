"""What replies look like: keys, types and list lengths, never values. Pure; knows no tool and no store.

Replies are a stranger's text, and shapes end up in prompts. So only keys that are plain identifiers are
kept, and `schema_of` names those alone that two replies had. Everything here is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Final, Literal, TypeAlias

import msgspec

from toolfold.models import Json, Media, Value

LONGEST_KEY: Final = 40
MOST_KEYS: Final = 64
"""Of one object; one that has more is a mapping, whose keys are data."""
MOST_BYTES: Final = 8 * 1024
"""Of one shape as it is stored."""
NEEDED_REPLIES: Final = 2
"""Before anything of a shape is told."""
_DEEPEST: Final = 6
_MOST_ITEMS: Final = 30
_MOST_VALUES: Final = 1_000
_KEY: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_KEY - 1}}}", re.ASCII)

Kind: TypeAlias = Literal["any", "boolean", "integer", "null", "number", "string"]
_KINDS: Final[dict[type, Kind]] = {
    bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null", bytes: "any", Media: "any",
}  # fmt: skip


class Shape(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was seen at one place of a tool's replies."""

    kinds: tuple[Kind, ...] = ()
    """Of plain values, sorted."""
    items: Items | None = None
    record: Record | None = None


class Items(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lists that were seen at a place."""

    shape: Shape
    shortest: int
    longest: int


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The objects that were seen at a place."""

    count: int
    keys: dict[str, Key]
    """Those that could be named."""
    others: Shape | None = None
    """The values of all other keys, which are not kept."""
    is_mapping: bool = False
    """It had too many keys; from then on none is kept."""


class Key(msgspec.Struct, frozen=True):
    """One key of the objects at a place."""

    shape: Shape
    count: int
    """Of the objects that had it: fewer than there were make it optional."""
    replies: int
    """Of the replies that had it."""


class Seen(msgspec.Struct, frozen=True):
    """What some replies of one tool had in common."""

    shape: Shape
    replies: int = 1


def seen(value: Value) -> Seen:
    """The shape of one reply; of a long one only a part is looked at."""
    return Seen(_Look().shape(value, 0))


def merged(one: Seen, other: Seen) -> Seen:
    """What was seen in the replies of both."""
    return Seen(_bounded(_Merge(is_same_reply=False).shapes(one.shape, other.shape)), one.replies + other.replies)


def schema_of(what: Seen, *, is_closed: bool = False) -> dict[str, Json] | None:
    """A JSON Schema of what two replies or more had; `None` where that says nothing.

    It is what was seen and no promise: nothing may be rejected by it. Where it `is_closed`, it names all keys.
    """
    if what.replies < NEEDED_REPLIES:
        return None
    schema = _schema(what.shape, is_closed)
    return {**schema, "description": f"as seen in {what.replies} replies"} if schema else None


class _Look:
    """One walk through one reply."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES
        self._merge = _Merge(is_same_reply=True)

    def shape(self, value: Value, depth: int) -> Shape:
        self._left -= 1
        if isinstance(value, (list, dict)):
            if self._left <= 0:
                return Shape()  # not looked at: says nothing, also beside what was
            if depth >= _DEEPEST:
                return Shape(kinds=("any",))
            return Shape(record=self._record(value, depth)) if isinstance(value, dict) else self._list(value, depth)
        return Shape(kinds=(_KINDS.get(type(value), "any"),))

    def _list(self, value: list[Value], depth: int) -> Shape:
        looked_at = (self.shape(item, depth + 1) for item in value[:_MOST_ITEMS])
        return Shape(items=Items(self._merge.all(looked_at), len(value), len(value)))

    def _record(self, value: Mapping[str, Value], depth: int) -> Record:
        keys: dict[str, Key] = {}
        others: list[Shape] = []
        is_mapping = len(value) > MOST_KEYS
        for key, inner in islice(value.items(), MOST_KEYS):
            shape = self.shape(inner, depth + 1)
            if not is_mapping and _KEY.fullmatch(key):
                keys[key] = Key(shape, 1, 1)
            else:
                others.append(shape)
        return Record(1, keys, self._merge.all(others) if others else None, is_mapping)


class _Merge:
    """Puts shapes of one reply, or of several, into one."""

    def __init__(self, *, is_same_reply: bool) -> None:
        self._is_same_reply = is_same_reply

    def all(self, shapes: Iterable[Shape]) -> Shape:
        return reduce(self.shapes, shapes, Shape())

    def shapes(self, one: Shape, other: Shape) -> Shape:
        items = one.items or other.items
        if one.items is not None and other.items is not None:
            items = self._items(one.items, other.items)
        record = one.record or other.record
        if one.record is not None and other.record is not None:
            record = self._records(one.record, other.record)
        kinds = one.kinds if one.kinds == other.kinds else tuple(sorted({*one.kinds, *other.kinds}))
        return Shape(kinds, items, record)

    def _items(self, one: Items, other: Items) -> Items:
        shape = self.shapes(one.shape, other.shape)
        return Items(shape, min(one.shortest, other.shortest), max(one.longest, other.longest))

    def _records(self, one: Record, other: Record) -> Record:
        keys = dict(one.keys)
        for name, key in other.keys.items():
            known = keys.get(name)
            keys[name] = key if known is None else self._key(known, key)
        others = [shape for shape in (one.others, other.others) if shape is not None]
        is_mapping = one.is_mapping or other.is_mapping
        if len(keys) > MOST_KEYS:
            # What only one reply had is most likely data; where that is not enough, all keys are.
            others += [keys.pop(name).shape for name in list(keys) if keys[name].replies < NEEDED_REPLIES]
            is_mapping = is_mapping or len(keys) > MOST_KEYS
        if is_mapping:
            others += [key.shape for key in keys.values()]
            keys = {}
        return Record(one.count + other.count, keys, self.all(others) if others else None, is_mapping)

    def _key(self, one: Key, other: Key) -> Key:
        replies = max(one.replies, other.replies) if self._is_same_reply else one.replies + other.replies
        return Key(self.shapes(one.shape, other.shape), one.count + other.count, replies)


def _bounded(shape: Shape) -> Shape:
    """As deep as fits."""
    for depth in range(_DEEPEST, 0, -1):
        cut = shape if depth == _DEEPEST else _cut(shape, depth)
        if len(msgspec.msgpack.encode(cut)) <= MOST_BYTES:
            return cut
    return Shape(kinds=("any",))


def _cut(shape: Shape, depth: int) -> Shape:
    if shape.items is None and shape.record is None:
        return shape
    if depth <= 0:
        return Shape(kinds=("any",))
    items, record = shape.items, shape.record
    if items is not None:
        items = Items(_cut(items.shape, depth - 1), items.shortest, items.longest)
    if record is not None:
        keys = {name: Key(_cut(key.shape, depth - 1), key.count, key.replies) for name, key in record.keys.items()}
        others = None if record.others is None else _cut(record.others, depth - 1)
        record = Record(record.count, keys, others, record.is_mapping)
    return Shape(shape.kinds, items, record)


def _schema(shape: Shape, is_closed: bool) -> dict[str, Json]:
    if "any" in shape.kinds:
        return {}
    kinds: list[Kind] = [kind for kind in shape.kinds if kind != "integer" or "number" not in shape.kinds]
    branches: list[dict[str, Json]] = []
    if shape.record is not None:
        branches.append(_record_schema(shape.record, is_closed))
    if shape.items is not None:
        inner = _schema(shape.items.shape, is_closed)
        branches.append({"type": "array", **({"items": inner} if inner else {})})
    if kinds:
        branches.append({"type": kinds[0] if len(kinds) == 1 else kinds})
    if not branches:
        return {}
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _record_schema(record: Record, is_closed: bool) -> dict[str, Json]:
    named = {name: key for name, key in record.keys.items() if key.replies >= NEEDED_REPLIES}
    if not named:
        values = [key.shape for key in record.keys.values()] + ([record.others] if record.others is not None else [])
        inner = _schema(_Merge(is_same_reply=True).all(values), is_closed)
        return {"type": "object", **({"additionalProperties": inner} if inner else {})}
    properties = {name: _schema(key.shape, is_closed) for name, key in named.items()}
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if is_closed and len(named) == len(record.keys) and record.others is None:
        schema["additionalProperties"] = False
    required = [name for name, key in named.items() if key.count == record.count]
    return {**schema, **({"required": required} if required else {})}


# ----------------------------------------------------------------------------------------------------
# One reply as a line that says what is in it: keys and types, no values. Pure.
#
# Unlike a learned shape it is for the program's own author, who was given the reply: every key may be named.

LONGEST: Final = 600
_LONGEST_KEY: Final = 40
_MOST_KEYS: Final = 30
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
