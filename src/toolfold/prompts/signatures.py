"""Tool signatures as text that reads like Python, `f(id: int) -> {tags?: list[str]}`, and notes on arguments.

A schema may come from a stranger: what is broken, endless or too deep to be of use becomes `Any`, `dict` or `list`.
A shape is kept in pieces, so that a record that stands in several places can be written once, under a name.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeAlias

from toolfold.models import Json, ToolSpec
from toolfold.prompts.python_stubs import function_name, keywords_of
from toolfold.prompts.schema_types import (
    Location,
    SchemaReader,
    flatten_schema,
    is_informative,
    merge_schemas,
    note_on,
    properties_of,
    texts_in,
)
from toolfold.prompts.wording import one_line, sentences_of
from toolfold_guest.shared.value_rules import is_text

DEEPEST: Final = 5
"""Maximum nesting of records; deeper ones are a `dict`."""
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
    preferred_name: str = field(default="", compare=False)
    """Name for it, where it gets one."""


Shape: TypeAlias = tuple[str | Record, ...]

ANY: Final[Shape] = ("Any",)


class ShapeReader(SchemaReader[Shape]):
    """Reads the schemas of one tool.

    Args:
        depth: How many records may stand inside each other.
        is_reply: It reads what comes back, where a schema without `required` usually means all keys.
    """

    def __init__(self, *, depth: int, is_reply: bool = False) -> None:
        self._depth = depth
        self._is_reply = is_reply
        self.steps = _MOST_STEPS

    def named(self, name: str) -> Shape:
        return (name,)

    def united(self, alternatives: Sequence[Shape]) -> Shape:
        """All alternatives once, `None` last; `Any` takes in all others."""
        members = [shape for shape in dict.fromkeys(alternatives) if shape != ("None",)]
        if ANY in members or not alternatives:
            return ANY
        if len(members) < len(set(alternatives)):
            members.append(("None",))
        return _join_shapes(members, "|")

    def choice(self, values: Sequence[Json]) -> Shape:
        texts: list[str] = []
        for value in values:
            text = literal(value) if isinstance(value, str | int | float | None) else "Any"
            if len(texts) == _MOST_VALUES or sum(map(len, texts)) + len(text) > _LONGEST_VALUES:
                texts.append(_MORE)
                break
            texts.append(text)
        return _join_shapes([(text,) for text in dict.fromkeys(texts)], "|")

    def reference(self, schema: Mapping[str, Json], pointer: str, at: Location) -> Shape:
        if pointer in at.visited:
            return ("dict",)
        name = pointer.rpartition("/")[2] or at.name
        return self.all_of(schema, replace(at, name=name, visited=at.visited | {pointer}))

    def all_of(self, schema: Mapping[str, Json], at: Location) -> Shape:
        return self.read(flatten_schema(schema, at.root), at)

    def any_of(self, schema: Mapping[str, Json], word: str, at: Location) -> Shape:
        options = schema[word]
        rest = {key: subschema for key, subschema in schema.items() if key not in ("anyOf", "oneOf", "nullable")}
        has_own = is_informative(rest)
        shapes = [
            self.read(merge_schemas(rest, subschema) if has_own and isinstance(subschema, Mapping) else subschema, at)
            for subschema in options[:_MOST_OPTIONS]
        ]
        return self.united([*shapes, *([(_MORE,)] if len(options) > _MOST_OPTIONS else [])])

    def array(self, first: Sequence[Json], rest: Json, at: Location, *, is_closed: bool) -> Shape:
        if is_closed and 0 < len(first) <= _MOST_OPTIONS:
            return ("tuple[", *_join_shapes([self.read(subschema, at) for subschema in first], ", "), "]")
        item = self.united([self.read(subschema, at) for subschema in (*first[:_MOST_OPTIONS], rest)])
        return ("list",) if item == ANY else ("list[", *item, "]")

    def object(self, schema: Mapping[str, Json], at: Location) -> Shape:
        if at.depth >= self._depth:
            return ("dict",)
        if properties_of(schema):
            return (self._record(schema, at),)
        additional = schema.get("additionalProperties")
        value = self.read(additional, replace(at, depth=at.depth + 1)) if isinstance(additional, Mapping) else ANY
        return ("dict",) if value == ANY else ("dict[str, ", *value, "]")

    def _record(self, schema: Mapping[str, Json], at: Location) -> Record:
        required = texts_in(schema.get("required"))
        all_there = self._is_reply and "required" not in schema
        fields: list[tuple[str, Shape]] = []
        for key, subschema in properties_of(schema).items():
            if len(fields) == _MOST_FIELDS or len(key) > _LONGEST_KEY or not is_text(key):
                fields.append((_MORE, ()))
                break
            mark = "" if all_there or key in required else "?"
            fields.append((f"{_key(key)}{mark}", self.read(subschema, replace(at, name=key, depth=at.depth + 1))))
        title = schema.get("title")
        return Record(tuple(fields), title if isinstance(title, str) and title.isidentifier() else at.name)


def literal(value: Json) -> str:
    """A value as Python source, with text in double quotes."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if text.isprintable() and is_text(text) else json.dumps(value)
    return repr(value)


def shape_text(shape: Shape, names: Mapping[Record, str]) -> str:
    """The text of a shape; records that have a name are written as that."""
    return "".join(
        piece if isinstance(piece, str) else names.get(piece) or record_text(piece, names) for piece in shape
    )


def record_text(record: Record, names: Mapping[Record, str]) -> str:
    """A record with its keys, whether it has a name or not."""
    inner = (f"{key}: {shape_text(shape, names)}" if shape else key for key, shape in record.fields)
    return f"{{{', '.join(inner)}}}"


def _key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() and not keyword.iskeyword(key) else literal(key)


def _join_shapes(shapes: Sequence[Shape], between: str) -> Shape:
    pieces: list[str | Record] = []
    for shape in shapes:
        pieces += [between, *shape] if pieces else shape
    return tuple(pieces)


# ----------------------------------------------------------------------------------------------------
# One tool as one line, `name(argument: type, optional?: type) -> reply`, and the words on it. Pure.

LONGEST_SIGNATURE: Final = 1_200
_LONGEST_DEFAULT: Final = 60
_LONGEST_EXAMPLE: Final = 160
_DEPTHS: Final = (DEEPEST, 2, 1, 0)
_KNOWN_SENTENCES: Final = 4
"""The first sentences of a description may be those that all tools of a server share."""
_LEARNED_COMMENT: Final = "  # as seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """A tool, read: all that is needed to write it down in any detail."""

    spec: ToolSpec
    name: str
    """The identifier that it is called by."""
    arguments: Shape
    returns: Shape | None
    """`None` if unknown."""
    is_seen: bool
    """The reply's shape was learned from replies, and not declared."""
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    """Notes on arguments, and an example."""

    def signature(self, names: Mapping[Record, str], *, with_returns: bool = True) -> str:
        head = f"{self.name}({shape_text(self.arguments, names)})"
        if self.returns is None or not with_returns:
            return head
        return f"{head} -> {shape_text(self.returns, names)}{_LEARNED_COMMENT if self.is_seen else ''}"


def line_of(spec: ToolSpec, learned: Mapping[str, Json] | None = None) -> ToolLine:
    """Read a tool; `learned`, the schema of the replies seen so far, counts only where the tool declares none."""
    output = spec.output_schema if spec.output_schema is not None else learned
    arguments, returns = _shapes(spec, output)
    return ToolLine(
        spec=spec, name=function_name(spec), arguments=arguments, returns=returns,
        is_seen=spec.output_schema is None and returns is not None, sentences=sentences_of(spec.description),
        notes=tuple(_notes(spec)),
    )  # fmt: skip


def _shapes(spec: ToolSpec, output: Mapping[str, Json] | None) -> tuple[Shape, Shape | None]:
    """Shapes of arguments and reply, as deep as fits into the line."""
    for depth in _DEPTHS:
        arguments = _arguments(spec, ShapeReader(depth=depth))
        reader = ShapeReader(depth=depth, is_reply=True)
        returns = None if output is None else reader.read(output, Location(output, _noun(spec)))
        longest = LONGEST_SIGNATURE - len(spec.python_name)
        if len(shape_text(arguments, {})) + len(shape_text(returns or (), {})) <= longest:
            return arguments, returns
    return ("...",), None


def _noun(spec: ToolSpec) -> str:
    """Name for a tool's reply: `graph` for `read_graph`."""
    name = spec.short_name or spec.python_name.rpartition("__")[2]
    return name.partition("_")[2] or "Reply"


def _arguments(spec: ToolSpec, reader: ShapeReader) -> Shape:
    root = spec.input_schema
    schema = flatten_schema(root, root)
    properties = properties_of(schema)
    keywords = keywords_of(properties)
    required = texts_in(schema.get("required"))
    shapes: list[Shape] = []
    for word, name in keywords.items():
        shape = _argument(
            word, properties[name], reader.read(properties[name], Location(root, name)), is_required=name in required
        )
        shapes.append(shape)
    additional = schema.get("additionalProperties", "properties" not in schema)
    if len(keywords) < len(properties) or additional is True or isinstance(additional, Mapping):
        shapes.append((_MORE,))
    return _join_shapes(shapes, ", ")


def _argument(word: str, schema: Json, shape: Shape, *, is_required: bool) -> Shape:
    default = schema.get("default") if isinstance(schema, Mapping) else None
    if default is not None and len(text := literal(default)) <= _LONGEST_DEFAULT:
        return (f"{word}: ", *shape, f" = {text}")
    if not is_required and shape[-2:] == ("|", "None"):
        shape = shape[:-2]
    return (f"{word}{'' if is_required else '?'}: ", *shape)


def _notes(spec: ToolSpec) -> Iterator[str]:
    root = spec.input_schema
    properties = properties_of(flatten_schema(root, root))
    keywords = keywords_of(properties)
    known_words = f"{spec.short_name or spec.name} {' '.join(sentences_of(spec.description)[:_KNOWN_SENTENCES])}"
    for word, name in keywords.items():
        schema = properties[name]
        has_default = isinstance(schema, Mapping) and "default" in schema
        note = note_on_argument(known_words, name, schema, has_default=has_default)
        if note:
            yield f"{word}: {note}"
        yield from (f"{path}: {inner}" for path, inner in inner_notes(known_words, word, schema, root))
    names = {name: word for word, name in keywords.items()}
    for example in spec.examples[:1]:
        if example.keys() <= names.keys():
            arguments = ", ".join(f"{names[name]}={literal(value)}" for name, value in example.items())
            yield one_line(f"e.g. {function_name(spec)}({arguments})", _LONGEST_EXAMPLE)


# ----------------------------------------------------------------------------------------------------
# What is worth saying of an argument besides its name, type and default, in few words.

_LONGEST_NOTE: Final = 300
_LONGEST_PATTERN: Final = 60
_MOST_INNER: Final = 12
_LARGEST_BOUND: Final = 2**31
"""Beyond it a limit says how a number is stored, not what it means."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_OPTIONAL: Final = re.compile(r"^[(\[]?optional[)\]]?[.:,;]?\s+|\s*[(\[]optional[)\]]", re.IGNORECASE)
_DEFAULT: Final = re.compile(
    r"[\s,;]*[(\[]?\bdefaults?(?: value)?(?: is| to|:|=)? ?[`'\"]?[\w.-]*[`'\"]?[)\]]?\.?$", re.IGNORECASE
)
_ARTICLE: Final = re.compile(r"^(?:the|an?) (?=\w)", re.IGNORECASE)
_EMPTY_WORDS: Final = frozenset({
    "the", "of", "a", "an", "to", "for", "in", "is", "be", "on", "and", "or", "that", "which", "by", "with",
    "from", "this", "it", "its", "at", "as", "will", "should", "you", "are", "name", "id", "identifier", "string",
    "number", "integer", "float", "boolean", "bool", "list", "array", "object", "value", "user", "optional",
    "specify", "specified", "specifie", "specifies", "given", "provided", "use", "used", "using",
})  # fmt: skip
"""Words that add nothing to an argument's name and type."""
_FORMATS: Final = frozenset(
    {"date", "date-time", "time", "duration", "email", "uri", "uuid", "hostname", "ipv4", "ipv6"}
)
_BOUNDS: Final = {
    "minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}",
    "maxLength": "≤ {} characters", "maxItems": "≤ {} items",
}  # fmt: skip


def note_on_argument(known: str, name: str, schema: Json, *, has_default: bool) -> str:
    """Words on an argument that are neither `known` nor its default, and its limits; empty if there are none."""
    if not isinstance(schema, Mapping):
        return ""
    text = _OPTIONAL.sub("", note_on(schema, _LONGEST_NOTE)).strip()
    text = (_DEFAULT.sub("", text) if has_default else text).rstrip(". ")
    new_words = set(_stems(text)) - set(_stems(f"{known} {name}")) - _EMPTY_WORDS
    text = _ARTICLE.sub("", text) if new_words else ""
    limits = ", ".join(_limits(schema, text))
    return f"{text} ({limits})" if text and limits else text or limits


def inner_notes(known_words: str, name: str, schema: Json, root: Json) -> Iterator[tuple[str, str]]:
    """Notes on the keys of an argument that is a record, or a list of such, by `argument.key`."""
    record = flatten_schema(schema, root)
    if isinstance(record.get("items"), Mapping):
        record = flatten_schema(record["items"], root)
    for key, subschema in islice(properties_of(record).items(), _MOST_INNER):
        note = note_on_argument(f"{known_words} {name}", key, subschema, has_default=False)
        if note and key.isidentifier():
            yield f"{name}.{key}", note


def _stems(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        small = word.lower()
        yield small
        yield small[:-1] if len(small) > 3 and small.endswith("s") else small


def _limits(schema: Mapping[str, Json], text: str) -> Iterator[str]:
    kind = schema.get("format")
    if isinstance(kind, str) and kind in _FORMATS and kind not in text.lower():
        yield kind
    for word, template in _BOUNDS.items():
        bound = schema.get(word)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and abs(bound) < _LARGEST_BOUND:
            number = f"{bound:g}"
            # A description that has the number has said what it means.
            if number not in _NUMBER.findall(text):
                yield template.format(number)
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and 0 < len(pattern) <= _LONGEST_PATTERN and pattern.isprintable():
        yield f"matches {pattern}"
