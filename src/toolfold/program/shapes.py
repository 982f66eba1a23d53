"""JSON Schemas as short text that reads like Python: `{id: int, tags?: list[str]}`. Knows schemas, not tools.

A schema may come from a stranger: what is broken, endless or too deep to be of use becomes `Any`, `dict` or `list`.
A shape is kept in pieces, so that a record that stands in several places can be written once, under a name.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from toolfold.models import Json
from toolfold.program.schema_kinds import ARRAYS, OBJECTS, SCALARS, array_parts, is_bytes, kinds_of, texts_in
from toolfold.program.schema_merge import flattened, is_informative, merged
from toolfold_guest.rules import is_text

DEEPEST: Final = 5
"""How many records stand inside each other; further in, one is a `dict`."""
_MOST_STEPS: Final = 1000
_MOST_FIELDS: Final = 40
_MOST_OPTIONS: Final = 8
_MOST_VALUES: Final = 30
_LONGEST_VALUES: Final = 300
_LONGEST_KEY: Final = 80
_MORE: Final = "..."


@dataclass(frozen=True, slots=True)
class Record:
    """An object with keys that are known, each with its mark; `...` among them stands for further ones."""

    fields: tuple[tuple[str, Shape], ...]
    wanted: str = field(default="", compare=False)
    """What to call it, where it is given a name."""


Shape: TypeAlias = tuple[str | Record, ...]

ANY: Final[Shape] = ("Any",)


@dataclass(frozen=True, slots=True)
class _Place:
    root: Json
    wanted: str
    depth: int
    """How many records may still stand inside."""
    is_reply: bool
    seen: frozenset[str] = frozenset()
    """The `$ref`s that led here."""

    def within(self, wanted: str) -> _Place:
        return replace(self, wanted=wanted, depth=self.depth - 1)


class Reader:
    """Reads the schemas of one tool, within a number of steps that no schema can exceed."""

    def __init__(self, *, depth: int = DEEPEST) -> None:
        self._depth = depth
        self._steps = _MOST_STEPS

    def of(self, schema: Json, root: Json, wanted: str = "", *, is_reply: bool = False) -> Shape:
        """The shape of a schema within the document `root`.

        Args:
            schema: The schema.
            root: What its `$ref`s point into.
            wanted: What a record in it is called where it has no name of its own.
            is_reply: It describes what comes back, where a schema without `required` usually means all keys.
        """
        return self._of(schema, _Place(root, wanted, self._depth, is_reply))

    def _of(self, schema: Json, at: _Place) -> Shape:
        self._steps -= 1
        if not isinstance(schema, Mapping) or self._steps < 0:
            return ANY
        found = self._combined(schema, at)
        return united([found, ("None",)]) if schema.get("nullable") is True else found

    def _combined(self, schema: Mapping[str, Json], at: _Place) -> Shape:
        pointer = schema.get("$ref")
        if isinstance(pointer, str):
            if pointer in at.seen:
                return ("dict",)
            wanted = pointer.rpartition("/")[2]
            at = replace(at, wanted=wanted or at.wanted, seen=at.seen | {pointer})
        if isinstance(pointer, str) or isinstance(schema.get("allOf"), list):
            return self._of(flattened(schema, at.root), at)
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                return self._any_of(schema, word, at)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return _choice(values)
        return united([self._of_kind(kind, schema, at) for kind in kinds_of(schema)])

    def _any_of(self, schema: Mapping[str, Json], word: str, at: _Place) -> Shape:
        options = schema[word]
        rest = {key: one for key, one in schema.items() if key not in ("anyOf", "oneOf", "nullable")}
        has_own = is_informative(rest)
        shapes = [
            self._of(merged(rest, one) if has_own and isinstance(one, Mapping) else one, at)
            for one in options[:_MOST_OPTIONS]
        ]
        return united([*shapes, *([(_MORE,)] if len(options) > _MOST_OPTIONS else [])])

    def _of_kind(self, kind: str, schema: Mapping[str, Json], at: _Place) -> Shape:
        if kind in ARRAYS:
            return self._array(schema, at)
        if kind in OBJECTS:
            return self._object(schema, at)
        return ("bytes",) if is_bytes(kind, schema) else SCALARS.get(kind, ANY)

    def _array(self, schema: Mapping[str, Json], at: _Place) -> Shape:
        first, rest = array_parts(schema)
        if first and len(first) <= _MOST_OPTIONS and (rest is False or schema.get("maxItems") == len(first)):
            parts = [self._of(one, at) for one in first]
            return ("tuple[", *_joined(parts, ", "), "]")
        item = united([self._of(one, at) for one in (*first[:_MOST_OPTIONS], rest)])
        return ("list",) if item == ANY else ("list[", *item, "]")

    def _object(self, schema: Mapping[str, Json], at: _Place) -> Shape:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            return (self._record(schema, properties, at),) if at.depth > 0 else ("dict",)
        others = schema.get("additionalProperties")
        value = self._of(others, at.within(at.wanted)) if isinstance(others, Mapping) and at.depth > 0 else ANY
        return ("dict",) if value == ANY else ("dict[str, ", *value, "]")

    def _record(self, schema: Mapping[str, Json], properties: Mapping[str, Json], at: _Place) -> Record:
        required = texts_in(schema.get("required"))
        all_there = at.is_reply and "required" not in schema
        fields: list[tuple[str, Shape]] = []
        for key, one in properties.items():
            if len(fields) == _MOST_FIELDS or len(key) > _LONGEST_KEY or not is_text(key):
                fields.append((_MORE, ()))
                break
            mark = "" if all_there or key in required else "?"
            fields.append((f"{_key(key)}{mark}", self._of(one, at.within(key))))
        title = schema.get("title")
        return Record(tuple(fields), title if isinstance(title, str) and title.isidentifier() else at.wanted)


def united(shapes: Sequence[Shape]) -> Shape:
    """All alternatives once, `None` last; `Any` takes in all others."""
    members = [one for one in dict.fromkeys(shapes) if one != ("None",)]
    if ANY in members or not shapes:
        return ANY
    if len(members) < len(set(shapes)):
        members.append(("None",))
    return _joined(members, "|")


def without_none(shape: Shape) -> Shape:
    """The same without the alternative `None`, for an argument that is simply left out."""
    return shape[:-2] if shape[-2:] == ("|", "None") else shape


def literal(value: Json) -> str:
    """A value as Python source, with text in double quotes."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if text.isprintable() and is_text(text) else json.dumps(value)
    return repr(value)


def written(shape: Shape, names: Mapping[Record, str]) -> str:
    """The text of a shape; records that have a name are written as that."""
    return "".join(
        piece if isinstance(piece, str) else names.get(piece) or record_text(piece, names) for piece in shape
    )


def record_text(record: Record, names: Mapping[Record, str]) -> str:
    """A record with its keys, whether it has a name or not."""
    inner = (f"{key}: {written(shape, names)}" if shape else key for key, shape in record.fields)
    return f"{{{', '.join(inner)}}}"


def _choice(values: Sequence[Json]) -> Shape:
    texts: list[str] = []
    for value in values:
        text = literal(value) if isinstance(value, str | int | float | None) else "Any"
        if len(texts) == _MOST_VALUES or sum(map(len, texts)) + len(text) > _LONGEST_VALUES:
            texts.append(_MORE)
            break
        texts.append(text)
    return _joined([(one,) for one in dict.fromkeys(texts)], "|")


def _key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() and not keyword.iskeyword(key) else literal(key)


def _joined(shapes: Sequence[Shape], between: str) -> Shape:
    pieces: list[str | Record] = []
    for shape in shapes:
        pieces += [between, *shape] if pieces else shape
    return tuple(pieces)
