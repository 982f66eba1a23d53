"""JSON Schemas as Python types. Knows schemas and Python, not tools.

A schema may come from a stranger: whatever it holds, the text is Python that a type checker
accepts. What is broken, endless or too large to be of use becomes `Any`. Written by hand: the
generators there are write modules of models, fail on a broken schema, or fetch a `$ref`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from toolfold.models import Json
from toolfold.program.records import TYPE_NAMES, Field, record_source
from toolfold.program.schema_kinds import ARRAYS, OBJECTS, SCALARS, array_parts, is_bytes, kinds_of, texts_in
from toolfold.program.schema_merge import flattened, is_informative, merged, target_of
from toolfold.program.unions import ANY, NONE, Union, expression, union_of_values, unite
from toolfold.program.words import one_line
from toolfold_guest.rules import is_text

_TITLE: Final = re.compile(r"[A-Z][A-Za-z0-9]{1,59}")
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_DEEPEST: Final = 12
_MOST_STEPS: Final = 2000
"""For all schemas of one scope, so of one tool."""
_MOST_KEYS: Final = 200
_MOST_OPTIONS: Final = 20
_MOST_VALUES: Final = 1000
_LONGEST_KEY: Final = 200
_LONGEST_NAME: Final = 80
_LONGEST_NOTE: Final = 120


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands, and what a record there is called."""

    root: Json
    name: str
    depth: int = 0
    pointer: str | None = None
    """The `$ref` that led here: another one to the same place means the same record."""

    def within(self, name: str) -> _Place:
        return _Place(self.root, (self.name + pascal(name))[:_LONGEST_NAME], self.depth + 1)


@dataclass(slots=True)
class Types:
    """Turns schemas into types, and keeps the declarations that these need."""

    taken: set[str] = field(default_factory=set)
    """Names that no declaration may have."""
    declarations: dict[str, str] = field(default_factory=dict)
    """The source of each record by its name, in the order in which they were met."""
    _scope: str = ""
    _steps: int = 0
    _roots: list[Json] = field(default_factory=list)
    _references: dict[tuple[int, str], str] = field(default_factory=dict)
    _open: set[tuple[int, str]] = field(default_factory=set)
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, schema: Json, root: Json, name: str, *, scope: str = "") -> Union:
        """The type of a schema within the document `root`.

        A record in it is named as its `$ref` or title is, else `name`. Records without a name of
        their own are shared within one `scope` only.
        """
        self._roots.append(root)  # kept alive, because `_references` knows it by its `id`
        if scope != self._scope or not scope:
            self._scope, self._steps = scope, _MOST_STEPS
        return self._of(schema, _Place(root, name[:_LONGEST_NAME]))

    def _of(self, schema: Json, at: _Place) -> Union:
        self._steps -= 1
        if schema is False:
            return ("Never",)
        if not isinstance(schema, Mapping) or self._steps < 0 or at.depth > _DEEPEST:
            return ANY
        found = self._combined(schema, at)
        return unite(found, NONE) if schema.get("nullable") is True else found

    def _combined(self, schema: Mapping[str, Json], at: _Place) -> Union:
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema, schema["$ref"], at)
        if isinstance(schema.get("allOf"), list):
            return self._all_of(schema, at)
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                return self._any_of(schema, word, at)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return union_of_values(values[:_MOST_VALUES])
        return self._by_type(schema, at)

    def _reference(self, schema: Mapping[str, Json], pointer: str, at: _Place) -> Union:
        if is_informative({key: one for key, one in schema.items() if key != "$ref"}):
            return self._of(flattened(schema, at.root), at)
        key = (id(at.root), pointer)
        if key in self._references:
            return (self._references[key],)
        if key in self._open:
            return ANY
        self._open.add(key)
        name = pascal(pointer.rpartition("/")[2]) or at.name
        found = self._of(target_of(pointer, at.root), _Place(at.root, name[:_LONGEST_NAME], at.depth + 1, pointer))
        self._open.discard(key)
        return found

    def _all_of(self, schema: Mapping[str, Json], at: _Place) -> Union:
        rest = {key: one for key, one in schema.items() if key != "allOf"}
        parts = [one for one in (*schema["allOf"], rest) if is_informative(one)]
        # One that says all keeps its name; several make a new record.
        return self._of(parts[0] if len(parts) == 1 else flattened(schema, at.root), at)

    def _any_of(self, schema: Mapping[str, Json], word: str, at: _Place) -> Union:
        rest, options = {key: one for key, one in schema.items() if key != word}, schema[word]
        if len(options) > _MOST_OPTIONS:
            return ANY
        if is_informative(rest):
            has_types = any(is_informative(one) for one in options)
            options = [merged(rest, flattened(one, at.root)) for one in options] if has_types else [rest]
        inner = _Place(at.root, at.name, at.depth + 1)
        return unite(*(self._of(one, inner) for one in options))

    def _by_type(self, schema: Mapping[str, Json], at: _Place) -> Union:
        found = [self._of_kind(kind, schema, at) for kind in kinds_of(schema)]
        return unite(*found) if found else ANY

    def _of_kind(self, kind: str, schema: Mapping[str, Json], at: _Place) -> Union:
        if kind in ARRAYS:
            return (self._array(schema, at),)
        if kind in OBJECTS:
            return (self._object(schema, at),)
        return ("bytes",) if is_bytes(kind, schema) else SCALARS.get(kind, ANY)

    def _array(self, schema: Mapping[str, Json], at: _Place) -> str:
        first, rest = array_parts(schema)
        if not 0 < len(first) <= _MOST_OPTIONS:
            return f"list[{expression(self._of(rest, at.within('item')))}]"
        parts = [self._of(one, at.within(f"item {number}")) for number, one in enumerate(first, 1)]
        if rest is False or schema.get("maxItems") == len(first):
            return f"tuple[{', '.join(map(expression, parts))}]"
        return f"list[{expression(unite(*parts, self._of(rest, at.within('item'))))}]"

    def _object(self, schema: Mapping[str, Json], at: _Place) -> str:
        keys = _keys(schema)
        if keys is None:
            return "dict[str, Any]"
        return self._record(schema, keys, at) if keys else f"dict[str, {expression(self._unnamed(schema, at))}]"

    def _unnamed(self, schema: Mapping[str, Json], at: _Place) -> Union:
        """The type of the values under keys that the schema does not name."""
        patterns = schema.get("patternProperties")
        ways = list(patterns.values())[:_MOST_OPTIONS] if isinstance(patterns, Mapping) else []
        others = schema.get("additionalProperties", not ways)
        return unite(*(self._of(one, at.within("value")) for one in (*ways, others)))

    def _record(self, schema: Mapping[str, Json], keys: Mapping[str, Json], at: _Place) -> str:
        title = schema.get("title")
        has_title = at.pointer is None and isinstance(title, str) and _TITLE.fullmatch(title) is not None
        wanted: str = title if has_title and isinstance(title, str) else at.name
        name = self._free_name(wanted)
        # Before its fields, for one of them may refer to it.
        if at.pointer is not None:
            self._references[(id(at.root), at.pointer)] = name
        before = len(self.declarations)
        self.declarations[name] = ""
        required = texts_in(schema.get("required"))
        inner = _Place(at.root, at.name, at.depth)
        fields = [
            Field(key, expression(self._of(one, inner.within(key))), key in required, note_on(one))
            for key, one in keys.items()
        ]
        note = "further keys are allowed" if schema.get("additionalProperties") not in (None, False) else ""
        self.declarations[name] = record_source(name, fields, note)
        is_shared = has_title or at.pointer is not None
        return self._shared(name, wanted if is_shared else f"{self._scope}.", at, before)

    def _shared(self, name: str, scope: str, at: _Place, before: int) -> str:
        """This record, or the equal one that was declared before it."""
        own = re.compile(rf"\b{name}\b")
        source = own.sub("\0", self.declarations[name])
        known = self._known.setdefault((scope, source), name)
        inner = list(self.declarations.values())[before + 1 :]
        if known == name or any(own.search(one) for one in inner):
            return name
        del self.declarations[name]
        self.taken.discard(name)
        if at.pointer is not None:
            self._references[(id(at.root), at.pointer)] = known
        return known

    def _free_name(self, wanted: str) -> str:
        wanted = wanted if wanted.isidentifier() else "Record"
        name, number = wanted, 1
        while name in self.taken or name in TYPE_NAMES or keyword.iskeyword(name):
            number += 1
            name = f"{wanted}{number}"
        self.taken.add(name)
        return name


def pascal(name: str) -> str:
    """`user-id` as part of a class name: `UserId`."""
    words = _WORD.findall(name[:_LONGEST_KEY])
    return "".join(word[0].upper() + word[1:] for word in words)


def note_on(schema: Json, longest: int = _LONGEST_NOTE) -> str:
    """The description, on one line."""
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return one_line(text, longest) if isinstance(text, str) else ""


def _keys(schema: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """The keys that the schema names; `None` if they cannot be written down."""
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        return None
    keys = {**properties, **{name: True for name in texts_in(schema.get("required")) if name not in properties}}
    is_plain = all(isinstance(key, str) and len(key) <= _LONGEST_KEY and is_text(key) for key in keys)
    return keys if is_plain and len(keys) <= _MOST_KEYS else None
