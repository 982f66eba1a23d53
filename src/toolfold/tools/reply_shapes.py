"""Reply shapes: keys, types and list lengths, never values, as a JSON Schema or a line. Pure; knows no store.

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
from msgspec.structs import replace

from toolfold.models import Json, Media, Value

LONGEST_KEY: Final = 40
MOST_KEYS: Final = 64
"""Limit for one object; one that has more is a mapping, whose keys are data."""
MOST_BYTES: Final = 8 * 1024
"""Limit for one stored shape."""
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


class ValueShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """Shape of the values at one position of a tool's replies."""

    kinds: tuple[Kind, ...] = ()
    """Types of plain values, sorted."""
    items: ListShape | None = None
    record: ObjectShape | None = None


class ListShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lists at one position."""

    shape: ValueShape
    shortest: int
    longest: int


class ObjectShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """Objects at one position."""

    count: int
    keys: dict[str, KeyShape]
    """Keys that are plain identifiers."""
    others: ValueShape | None = None
    """Values of all other keys."""
    is_mapping: bool = False
    """It once had too many keys; none is kept since."""


class KeyShape(msgspec.Struct, frozen=True):
    """One key of the objects at one position."""

    shape: ValueShape
    count: int
    """Number of objects that had it; optional if fewer than all."""
    replies: int


class ReplyShape(msgspec.Struct, frozen=True):
    """Common shape of some replies of one tool."""

    shape: ValueShape
    replies: int = 1


def shape_of_reply(value: Value) -> ReplyShape:
    """The shape of one reply; of a long one only a part is looked at."""
    return ReplyShape(_ShapeReader().shape(value, 0))


def size_of(value: Value, most: int) -> int:
    """About how many characters a reply has as JSON; once it is more than `most`, no more is counted."""
    size, pending = 0, [value]
    while pending and size <= most:
        match pending.pop():
            case str() | bytes() as text:
                size += len(text) + 2
            case dict() as record:
                size += 4 * len(record) + sum(map(len, islice(record, most)))
                pending += islice(record.values(), most)
            case list() as items:
                size += 2 + len(items)
                pending += islice(items, most)
            case Media():
                size += most + 1
            case _:
                size += 5
    return size


def merge_reply_shapes(first: ReplyShape, second: ReplyShape) -> ReplyShape:
    shape = _ShapeMerger(is_same_reply=False).shapes(first.shape, second.shape)
    return ReplyShape(_bounded(shape), first.replies + second.replies)


def schema_of(reply_shape: ReplyShape, *, is_closed: bool = False) -> dict[str, Json] | None:
    """A JSON Schema of what two replies or more had; `None` where that says nothing.

    It is what was seen and no promise: nothing may be rejected by it. Where it `is_closed`, it names all keys.
    """
    if reply_shape.replies < NEEDED_REPLIES:
        return None
    schema = _schema(reply_shape.shape, is_closed)
    return {**schema, "description": f"as seen in {reply_shape.replies} replies"} if schema else None


class _ShapeReader:
    def __init__(self) -> None:
        self._remaining_values = _MOST_VALUES
        self._merge = _ShapeMerger(is_same_reply=True)

    def shape(self, value: Value, depth: int) -> ValueShape:
        self._remaining_values -= 1
        if isinstance(value, (list, dict)):
            if self._remaining_values <= 0:
                return ValueShape()  # not looked at: says nothing, also beside what was
            if depth >= _DEEPEST:
                return ValueShape(kinds=("any",))
            if isinstance(value, dict):
                return ValueShape(record=self._record(value, depth))
            looked_at = (self.shape(item, depth + 1) for item in value[:_MOST_ITEMS])
            return ValueShape(items=ListShape(self._merge.all(looked_at), len(value), len(value)))
        return ValueShape(kinds=(_KINDS.get(type(value), "any"),))

    def _record(self, value: Mapping[str, Value], depth: int) -> ObjectShape:
        keys: dict[str, KeyShape] = {}
        other_shapes: list[ValueShape] = []
        is_mapping = len(value) > MOST_KEYS
        for key, inner in islice(value.items(), MOST_KEYS):
            shape = self.shape(inner, depth + 1)
            if not is_mapping and _KEY.fullmatch(key):
                keys[key] = KeyShape(shape, 1, 1)
            else:
                other_shapes.append(shape)
        return ObjectShape(1, keys, self._merge.all(other_shapes) if other_shapes else None, is_mapping)


class _ShapeMerger:
    """Puts shapes of one reply, or of several, into one."""

    def __init__(self, *, is_same_reply: bool) -> None:
        self._is_same_reply = is_same_reply

    def all(self, shapes: Iterable[ValueShape]) -> ValueShape:
        return reduce(self.shapes, shapes, ValueShape())

    def shapes(self, first: ValueShape, second: ValueShape) -> ValueShape:
        items = first.items or second.items
        if first.items is not None and second.items is not None:
            shape = self.shapes(first.items.shape, second.items.shape)
            shortest = min(first.items.shortest, second.items.shortest)
            items = ListShape(shape, shortest, max(first.items.longest, second.items.longest))
        record = first.record or second.record
        if first.record is not None and second.record is not None:
            record = self._records(first.record, second.record)
        kinds = first.kinds if first.kinds == second.kinds else tuple(sorted({*first.kinds, *second.kinds}))
        return ValueShape(kinds, items, record)

    def _records(self, first: ObjectShape, second: ObjectShape) -> ObjectShape:
        keys = dict(first.keys)
        for name, key in second.keys.items():
            previous = keys.get(name)
            keys[name] = key if previous is None else self._key(previous, key)
        other_shapes = [shape for shape in (first.others, second.others) if shape is not None]
        is_mapping = first.is_mapping or second.is_mapping
        if len(keys) > MOST_KEYS:
            # What only one reply had is most likely data; where that is not enough, all keys are.
            other_shapes += [keys.pop(name).shape for name in list(keys) if keys[name].replies < NEEDED_REPLIES]
            is_mapping = is_mapping or len(keys) > MOST_KEYS
        if is_mapping:
            other_shapes += [key.shape for key in keys.values()]
            keys = {}
        return ObjectShape(
            first.count + second.count, keys, self.all(other_shapes) if other_shapes else None, is_mapping
        )

    def _key(self, first: KeyShape, second: KeyShape) -> KeyShape:
        replies = max(first.replies, second.replies) if self._is_same_reply else first.replies + second.replies
        return KeyShape(self.shapes(first.shape, second.shape), first.count + second.count, replies)


def _bounded(shape: ValueShape) -> ValueShape:
    """The shape, cut to the depth that fits into `MOST_BYTES`."""
    for depth in range(_DEEPEST, 0, -1):
        cut = shape if depth == _DEEPEST else _cut(shape, depth)
        if len(msgspec.msgpack.encode(cut)) <= MOST_BYTES:
            return cut
    return ValueShape(kinds=("any",))


def _cut(shape: ValueShape, depth: int) -> ValueShape:
    if shape.items is None and shape.record is None:
        return shape
    if depth <= 0:
        return ValueShape(kinds=("any",))
    items, record = shape.items, shape.record
    if items is not None:
        items = replace(items, shape=_cut(items.shape, depth - 1))
    if record is not None:
        keys = {name: replace(key, shape=_cut(key.shape, depth - 1)) for name, key in record.keys.items()}
        record = replace(record, keys=keys, others=record.others and _cut(record.others, depth - 1))
    return ValueShape(shape.kinds, items, record)


def _schema(shape: ValueShape, is_closed: bool) -> dict[str, Json]:
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


def _record_schema(record: ObjectShape, is_closed: bool) -> dict[str, Json]:
    common_keys = {name: key for name, key in record.keys.items() if key.replies >= NEEDED_REPLIES}
    if not common_keys:
        values = [key.shape for key in record.keys.values()] + ([record.others] if record.others is not None else [])
        inner = _schema(_ShapeMerger(is_same_reply=True).all(values), is_closed)
        return {"type": "object", **({"additionalProperties": inner} if inner else {})}
    properties = {name: _schema(key.shape, is_closed) for name, key in common_keys.items()}
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if is_closed and len(common_keys) == len(record.keys) and record.others is None:
        schema["additionalProperties"] = False
    required = [name for name, key in common_keys.items() if key.count == record.count]
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
    """Common type of the values at one position."""
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
    items = [item for values in lists for item in values[:_MOST_ITEMS]][:_MOST_ITEMS]
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
    parts = [_name(key) for key in keys[:_MOST_KEYS]]
    for at, key in enumerate(keys[:_MOST_KEYS] if depth > 0 else ()):
        values = [record[key] for record in records if key in record]
        parts[at] += f"{'?' if len(values) < len(records) else ''}: {_text(values, depth - 1)}"
    if len(keys) > _MOST_KEYS:
        parts.append(f"... {len(keys) - _MOST_KEYS:,} more keys")
    return f"{{{', '.join(parts)}}}"


def _name(key: str) -> str:
    """A plain word as it is; anything else quoted, so that it cannot pass for our own text."""
    short = key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]}…"
    return short if short.isidentifier() and short.isascii() else ascii(short)
