"""JSON Schemas as Python types. Knows schemas and Python, not tools.

A schema may come from a stranger: whatever it holds, the text is Python that a type checker
accepts. What is broken, endless or too large to be of use becomes `Any`. Written by hand: the
generators there are write modules of models, fail on a broken schema, or fetch a `$ref`.
"""

from __future__ import annotations

import keyword
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias, TypeVar
from urllib.parse import unquote

from toolfold.models import Json
from toolfold.prompts.wording import one_line
from toolfold_guest.shared.value_rules import is_text

# ----------------------------------------------------------------------------------------------------
# Types as their alternatives: united, compared with a value, written as one expression.

Union: TypeAlias = tuple[str, ...]
"""Each alternative is an expression; a literal is one of its own, as `Literal['a']`."""

ANY: Final[Union] = ("Any",)
NONE: Final[Union] = ("None",)
LONGEST_LITERAL: Final = 200
MOST_LITERALS: Final = 60

_LITERAL: Final = "Literal["
_ACCEPTS: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset({"str", "Any"}), bool: frozenset({"bool", "int", "float", "Any"}),
    int: frozenset({"int", "float", "Any"}), float: frozenset({"float", "Any"}), type(None): frozenset({"None", "Any"}),
}  # fmt: skip


def unite(*unions: Union) -> Union:
    """All alternatives once, `None` last; `Any` takes in all others, `str` the literals that are text."""
    members = dict.fromkeys(member for union in unions for member in union)
    if "Any" in members or not members:
        return ANY
    general = members.keys() & {"str", "int", "bool"}
    alternatives = [
        member for member in members if member not in ("None", "Never") and _kind_of_literal(member) not in general
    ]
    if "None" in members:
        alternatives.append("None")
    return tuple(alternatives) or unions[0]


def expression(union: Union) -> str:
    """As Python writes it: `int | Literal['a', 'b'] | None`."""
    literals = [member[len(_LITERAL) : -1] for member in union if member.startswith(_LITERAL)]
    parts = [f"{_LITERAL}{', '.join(literals)}]" if member.startswith(_LITERAL) else member for member in union]
    return " | ".join(dict.fromkeys(parts))


def accepts(union: Union, value: Json) -> bool:
    """Whether a value, written as a literal, has this type for certain."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if isinstance(value, list | dict):
        start = "list[" if isinstance(value, list) else "dict["
        return not value and (union == ANY or any(member.startswith(start) for member in union))
    return f"{_LITERAL}{value!r}]" in union or not _ACCEPTS.get(type(value), frozenset()).isdisjoint(union)


def union_of_values(values: Sequence[Json]) -> Union:
    """The type of an `enum`: literals, or the kinds of its values where there are too many."""
    return unite(*map(_literal if len(values) <= MOST_LITERALS else _kind, values))


def _literal(value: Json) -> Union:
    is_number = isinstance(value, int) and abs(value) < 10**18
    is_short = isinstance(value, str) and len(value) <= LONGEST_LITERAL and is_text(value)
    return (f"{_LITERAL}{value!r}]",) if is_number or is_short else _kind(value)


def _kind(value: Json) -> Union:
    if isinstance(value, bool | int | float | str | None):
        return NONE if value is None else (type(value).__name__,)
    return ("list[Any]",) if isinstance(value, list) else ("dict[str, Any]",) if isinstance(value, Mapping) else ANY


def _kind_of_literal(member: str) -> str:
    if not member.startswith(_LITERAL):
        return ""
    value = member[len(_LITERAL) : -1]
    if value in ("True", "False"):
        return "bool"
    return "str" if value[0] in "'\"" else "int"


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

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a schema stands, and what a record there is called."""

    root: Json
    name: str
    depth: int = 0
    visited: frozenset[str] = frozenset()
    """The `$ref`s that led here."""
    pointer: str | None = None
    """The `$ref` that stands right here: another one to the same place means the same record."""


class SchemaReader(ABC, Generic[T]):
    """The one reading of a schema's keywords, within a number of steps that no schema can exceed.

    Subclasses say what becomes of each: `Types` writes Python source, `prompts.signatures` a line of a prompt.
    """

    steps = _MOST_STEPS

    def read(self, schema: Json, at: Location) -> T:
        self.steps -= 1
        if not isinstance(schema, Mapping) or self.steps < 0:
            return self.named("Any")
        result = self._combined(schema, at)
        return self.united([result, self.named("None")]) if schema.get("nullable") is True else result

    def _combined(self, schema: Mapping[str, Json], at: Location) -> T:
        if isinstance(schema.get("$ref"), str):
            return self.reference(schema, schema["$ref"], at)
        if isinstance(schema.get("allOf"), list):
            return self.all_of(schema, at)
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                return self.any_of(schema, word, at)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return self.choice(values)
        return self.united([self._of_kind(kind, schema, at) for kind in _kinds(schema)])

    def _of_kind(self, kind: str, schema: Mapping[str, Json], at: Location) -> T:
        if kind in _ARRAYS:
            first, rest = _array_parts(schema)
            return self.array(first, rest, at, is_closed=rest is False or schema.get("maxItems") == len(first))
        if kind in _OBJECTS:
            return self.object(schema, at)
        # As `sources.function_types` writes text that stands for bytes.
        is_bytes = kind == "string" and schema.get("format") == "bytes"
        return self.named("bytes" if is_bytes else _SCALARS.get(kind, "Any"))

    @abstractmethod
    def named(self, name: str) -> T: ...
    @abstractmethod
    def united(self, alternatives: Sequence[T]) -> T: ...
    @abstractmethod
    def choice(self, values: Sequence[Json]) -> T: ...
    @abstractmethod
    def reference(self, schema: Mapping[str, Json], pointer: str, at: Location) -> T: ...
    @abstractmethod
    def all_of(self, schema: Mapping[str, Json], at: Location) -> T: ...
    @abstractmethod
    def any_of(self, schema: Mapping[str, Json], word: str, at: Location) -> T: ...
    @abstractmethod
    def array(self, first: Sequence[Json], rest: Json, at: Location, *, is_closed: bool) -> T: ...
    @abstractmethod
    def object(self, schema: Mapping[str, Json], at: Location) -> T: ...


class Types(SchemaReader[Union]):
    """Turns schemas into types, and keeps the declarations that these need.

    Args:
        used_names: Names that no declaration may have.
    """

    def __init__(self, used_names: Iterable[str] = ()) -> None:
        self.used_names = set(used_names)
        self.declarations: dict[str, str] = {}
        """The source of each record by its name, in the order in which they were met."""
        self._scope = ""
        self._roots: list[Json] = []
        self._references: dict[tuple[int, str], str] = {}
        self._shared_names: dict[tuple[str, str], str] = {}

    def of(self, schema: Json, root: Json, name: str, *, scope: str = "") -> Union:
        """The type of a schema within the document `root`.

        A record in it is named as its `$ref` or title is, else `name`. Records without a name of
        their own are shared within one `scope` only.
        """
        self._roots.append(root)  # kept alive, because `_references` knows it by its `id`
        if scope != self._scope or not scope:
            self._scope, self.steps = scope, _MOST_STEPS
        return self.read(schema, Location(root, name[:_LONGEST_NAME]))

    def read(self, schema: Json, at: Location) -> Union:
        return ("Never",) if schema is False else super().read(schema if at.depth <= _DEEPEST else None, at)

    def named(self, name: str) -> Union:
        return (name,)

    def united(self, alternatives: Sequence[Union]) -> Union:
        return unite(*alternatives)

    def choice(self, values: Sequence[Json]) -> Union:
        return union_of_values(values[:_MOST_VALUES])

    def reference(self, schema: Mapping[str, Json], pointer: str, at: Location) -> Union:
        if is_informative({key: value for key, value in schema.items() if key != "$ref"}):
            return self.read(flatten_schema(schema, at.root), at)
        key = (id(at.root), pointer)
        if key in self._references:
            return (self._references[key],)
        if pointer in at.visited:
            return ANY
        name = (pascal(pointer.rpartition("/")[2]) or at.name)[:_LONGEST_NAME]
        inner = Location(at.root, name, at.depth + 1, at.visited | {pointer}, pointer)
        return self.read(target_of(pointer, at.root), inner)

    def all_of(self, schema: Mapping[str, Json], at: Location) -> Union:
        rest = {key: subschema for key, subschema in schema.items() if key != "allOf"}
        parts = [subschema for subschema in (*schema["allOf"], rest) if is_informative(subschema)]
        # One that says all keeps its name; several make a new record.
        return self.read(parts[0] if len(parts) == 1 else flatten_schema(schema, at.root), at)

    def any_of(self, schema: Mapping[str, Json], word: str, at: Location) -> Union:
        rest, options = {key: subschema for key, subschema in schema.items() if key != word}, schema[word]
        if len(options) > _MOST_OPTIONS:
            return ANY
        if is_informative(rest):
            has_types = any(map(is_informative, options))
            flat = [merge_schemas(rest, flatten_schema(subschema, at.root)) for subschema in options]
            options = flat if has_types else [rest]
        inner = replace(at, depth=at.depth + 1, pointer=None)
        return unite(*(self.read(subschema, inner) for subschema in options))

    def array(self, first: Sequence[Json], rest: Json, at: Location, *, is_closed: bool) -> Union:
        if not 0 < len(first) <= _MOST_OPTIONS:
            return (f"list[{expression(self.read(rest, _within(at, 'item')))}]",)
        parts = [self.read(subschema, _within(at, f"item {number}")) for number, subschema in enumerate(first, 1)]
        if is_closed:
            return (f"tuple[{', '.join(map(expression, parts))}]",)
        return (f"list[{expression(unite(*parts, self.read(rest, _within(at, 'item'))))}]",)

    def object(self, schema: Mapping[str, Json], at: Location) -> Union:
        keys = _keys(schema)
        if keys is None:
            return ("dict[str, Any]",)
        if keys:
            return (self._record(schema, keys, at),)
        patterns = schema.get("patternProperties")
        ways = list(patterns.values())[:_MOST_OPTIONS] if isinstance(patterns, Mapping) else []
        additional = schema.get("additionalProperties", not ways)
        values = unite(*(self.read(subschema, _within(at, "value")) for subschema in (*ways, additional)))
        return (f"dict[str, {expression(values)}]",)

    def _record(self, schema: Mapping[str, Json], keys: Mapping[str, Json], at: Location) -> str:
        title = schema.get("title")
        has_title = at.pointer is None and isinstance(title, str) and _TITLE.fullmatch(title) is not None
        preferred_name = str(title) if has_title else at.name
        name = self._free_name(preferred_name)
        # Before its fields, for one of them may refer to it.
        if at.pointer is not None:
            self._references[(id(at.root), at.pointer)] = name
        before = len(self.declarations)
        self.declarations[name] = ""
        required = texts_in(schema.get("required"))
        fields: dict[str, tuple[str, str]] = {}
        for key, subschema in keys.items():
            text = expression(self.read(subschema, _within(at, key)))
            fields[key] = (text if key in required else f"NotRequired[{text}]", note_on(subschema))
        note = "further keys are allowed" if schema.get("additionalProperties") not in (None, False) else ""
        self.declarations[name] = record_source(name, fields, note)
        is_shared = has_title or at.pointer is not None
        return self._shared(name, preferred_name if is_shared else f"{self._scope}.", at, before)

    def _shared(self, name: str, scope: str, at: Location, before: int) -> str:
        """This record, or the equal one that was declared before it."""
        own = re.compile(rf"\b{name}\b")
        source = own.sub("\0", self.declarations[name])
        shared_name = self._shared_names.setdefault((scope, source), name)
        inner = list(self.declarations.values())[before + 1 :]
        if shared_name == name or any(own.search(declaration) for declaration in inner):
            return name
        del self.declarations[name]
        self.used_names.discard(name)
        if at.pointer is not None:
            self._references[(id(at.root), at.pointer)] = shared_name
        return shared_name

    def _free_name(self, preferred_name: str) -> str:
        preferred_name = preferred_name if preferred_name.isidentifier() else "Record"
        name, number = preferred_name, 1
        while name in self.used_names or name in TYPE_NAMES or keyword.iskeyword(name):
            number += 1
            name = f"{preferred_name}{number}"
        self.used_names.add(name)
        return name


def _within(at: Location, name: str) -> Location:
    return Location(at.root, (at.name + pascal(name))[:_LONGEST_NAME], at.depth + 1, at.visited)


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


# ----------------------------------------------------------------------------------------------------
# What the words of a JSON Schema mean as kinds of Python values; also the words that people write by hand.

_SCALARS: Final = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
    # No JSON Schema, but what people write by hand.
    "str": "str", "int": "int", "float": "float", "double": "float", "bool": "bool", "none": "None",
}  # fmt: skip
_ARRAYS: Final = frozenset({"array", "list", "tuple"})
_OBJECTS: Final = frozenset({"object", "dict"})


def _kinds(schema: Mapping[str, Json]) -> list[str]:
    """The values of `type`, in lower case; what the other keywords imply where there is none."""
    kinds = schema.get("type", _implied(schema))
    return [kind.lower() if isinstance(kind, str) else "" for kind in (kinds if isinstance(kinds, list) else [kinds])]


def properties_of(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schemas of an object's keys; none if that is anything else than a mapping."""
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def texts_in(value: Json) -> list[str]:
    """The texts of a list such as `required`; none if it is anything else."""
    return [text for text in value if isinstance(text, str)] if isinstance(value, list | tuple) else []


def _array_parts(schema: Mapping[str, Json]) -> tuple[list[Json], Json]:
    """The schemas of the first items and that of all further ones, whichever draft it is written in."""
    rest, first = schema.get("items", True), schema.get("prefixItems")
    if isinstance(rest, list):  # how drafts before 2020-12 write `prefixItems`
        rest, first = schema.get("additionalItems", True), rest
    return (first if isinstance(first, list) else []), rest


def _implied(schema: Mapping[str, Json]) -> str:
    if not schema.keys().isdisjoint({"properties", "additionalProperties", "patternProperties"}):
        return "object"
    return "array" if not schema.keys().isdisjoint({"items", "prefixItems"}) else ""


# ----------------------------------------------------------------------------------------------------
# Schemas joined as `allOf` joins them, and local `$ref`s followed; for types, not for validation.

_MAX_MERGE_DEPTH: Final = 20
_SAYS_TYPE: Final = frozenset({
    "$ref", "type", "enum", "const", "properties", "items", "prefixItems", "additionalProperties",
    "patternProperties", "allOf", "anyOf", "oneOf", "nullable",
})  # fmt: skip


def is_informative(schema: Json) -> bool:
    """Whether it says something of the type; a description or a limit does not."""
    return schema is False or (isinstance(schema, Mapping) and not _SAYS_TYPE.isdisjoint(schema))


def target_of(pointer: str, root: Json) -> Json | None:
    """Target of a `$ref` within this document; `None` if there is none, or it is elsewhere."""
    if not pointer.startswith("#"):
        return None
    target = root
    for step in unquote(pointer[1:]).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and key in target:
            target = target[key]
        elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target


def resolve(schema: Json, root: Json) -> Json | None:
    """Final target of a schema's `$ref`s; `None` if there is none, it is elsewhere, or they form a cycle."""
    for _ in range(_MAX_MERGE_DEPTH):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        schema = target_of(str(schema["$ref"]), root)
    return None


def flatten_schema(schema: Json, root: Json) -> Mapping[str, Json]:
    """The schema with its `$ref` and `allOf` taken in."""
    return _flatten(schema, root, set(), _MAX_MERGE_DEPTH)


def _flatten(schema: Json, root: Json, visited: set[str], depth: int) -> Mapping[str, Json]:
    if not isinstance(schema, Mapping) or depth < 0:
        return {}
    whole = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    pointer, parts = schema.get("$ref"), schema.get("allOf")
    # Each once: taken in again it adds nothing, and in a circle it would never end.
    if isinstance(pointer, str) and pointer not in visited:
        visited.add(pointer)
        whole = merge_schemas(whole, _flatten(target_of(pointer, root), root, visited, depth - 1))
    for part in parts if isinstance(parts, list) else ():
        whole = merge_schemas(whole, _flatten(part, root, visited, depth - 1))
    return whole


def merge_schemas(first: Mapping[str, Json], second: Mapping[str, Json]) -> dict[str, Json]:
    """Both at once; where they contradict each other, the second."""
    both = {**first, **second}
    if isinstance(first.get("properties"), Mapping) and isinstance(second.get("properties"), Mapping):
        both["properties"] = {**first["properties"], **second["properties"]}
        for name in first["properties"].keys() & second["properties"].keys():
            left, right = first["properties"][name], second["properties"][name]
            if isinstance(left, Mapping) and isinstance(right, Mapping) and "$ref" not in left:
                both["properties"][name] = {**left, **right}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        both["required"] = [*first["required"], *second["required"]]
    for word in ("anyOf", "oneOf"):
        # Two choices at once have no simple type; the first is as good as the second.
        if word in first and word in second:
            both[word] = first[word]
    return both


# ----------------------------------------------------------------------------------------------------
# `TypedDict`s as Python source.

TYPING_NAMES: Final = ("Any", "Literal", "Never", "NotRequired", "TypedDict")
"""Names that type expressions may need from `typing`."""

TYPE_NAMES: Final = frozenset({"str", "bytes", "int", "float", "bool", "list", "dict", "tuple", *TYPING_NAMES})
"""Names that expressions are made of; nothing else may be called so where they are read."""


def record_source(name: str, fields: Mapping[str, tuple[str, str]], note: str = "") -> str:
    """A class if every key can be a field of one, else the call that takes any key; a field is a type and a note."""
    if all(map(_can_be_a_field, fields)):
        lines = [f"    {key}: {type_text}{_comment(words)}" for key, (type_text, words) in fields.items()]
        return "\n".join([f"class {name}(TypedDict):{_comment(note)}", *lines])
    lines = [f"    {key!r}: {type_text!r},{_comment(words)}" for key, (type_text, words) in fields.items()]
    return "\n".join([f'{name} = TypedDict("{name}", {{{_comment(note)}', *lines, "})"])


def _can_be_a_field(key: str) -> bool:
    # A class mangles `__x`; a field named like a type, ours are capitalised, hides it from the next.
    is_name = key.isascii() and key.isidentifier() and not keyword.iskeyword(key)
    return is_name and not key.startswith("__") and key not in TYPE_NAMES and not key[0].isupper()


def _comment(note: str) -> str:
    # A checker would read a comment that starts with `type:` as an annotation.
    return f"  # {'- ' if note.startswith('type:') else ''}{note}" if note else ""


def text_schema(name: str, description: str) -> dict[str, Json]:
    """Schema of a tool that takes one text; valid in the strict modes of all providers."""
    properties: dict[str, Json] = {name: {"type": "string", "description": description}}
    return {"type": "object", "properties": properties, "required": [name], "additionalProperties": False}
