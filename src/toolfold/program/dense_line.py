"""One tool as one line, `name(argument: type, optional?: type) -> reply`, and the words on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from toolfold.models import Json, ToolSpec
from toolfold.program.notes import inner_notes, note_on_argument
from toolfold.program.schema_kinds import texts_in
from toolfold.program.schema_merge import flattened
from toolfold.program.sentences import sentences_of
from toolfold.program.shapes import DEEPEST, Reader, Record, Shape, literal, without_none, written
from toolfold.program.stub import function_name, keywords_of
from toolfold.program.words import one_line

LONGEST_SIGNATURE: Final = 1_200
_LONGEST_DEFAULT: Final = 60
_LONGEST_EXAMPLE: Final = 160
_DEPTHS: Final = (DEEPEST, 2, 1, 0)
_KNOWN_SENTENCES: Final = 4
"""The first sentences of a description may be those that all tools of a server share."""
_SEEN: Final = "  # as seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A tool, read: all that is needed to write it down in any detail."""

    spec: ToolSpec
    name: str
    """The identifier that it is called by."""
    arguments: Shape
    """What stands between the brackets."""
    returns: Shape | None
    """`None`: nobody knows."""
    is_seen: bool
    """The reply's shape was learned from replies, and not declared."""
    sentences: tuple[str, ...]
    """Of the description."""
    notes: tuple[str, ...]
    """On arguments, and an example."""

    def signature(self, names: Mapping[Record, str], *, with_returns: bool = True) -> str:
        """The call, and what comes back."""
        head = f"{self.name}({written(self.arguments, names)})"
        if self.returns is None or not with_returns:
            return head
        return f"{head} -> {written(self.returns, names)}{_SEEN if self.is_seen else ''}"


def line_of(spec: ToolSpec, learned: Mapping[str, Json] | None = None) -> Line:
    """Read a tool.

    Args:
        spec: The tool.
        learned: The schema of the replies seen so far; counts only where the tool declares none.
    """
    output = spec.output_schema if spec.output_schema is not None else learned
    arguments, returns = _shapes(spec, output)
    return Line(
        spec=spec,
        name=function_name(spec),
        arguments=arguments,
        returns=returns,
        is_seen=spec.output_schema is None and returns is not None,
        sentences=sentences_of(spec.description),
        notes=tuple(_notes(spec)),
    )


def _shapes(spec: ToolSpec, output: Mapping[str, Json] | None) -> tuple[Shape, Shape | None]:
    """Of arguments and reply: as deep as the line stays within its length."""
    for depth in _DEPTHS:
        arguments = _arguments(spec, Reader(depth=depth))
        returns = None if output is None else Reader(depth=depth).of(output, output, _noun(spec), is_reply=True)
        longest = LONGEST_SIGNATURE - len(spec.python_name)
        if len(written(arguments, {})) + len(written(returns or (), {})) <= longest:
            return arguments, returns
    return ("...",), None


def _noun(spec: ToolSpec) -> str:
    """What a tool's reply is called where it needs a name: `graph` for `read_graph`."""
    name = spec.short_name or spec.python_name.rpartition("__")[2]
    return name.partition("_")[2] or "Reply"


def _arguments(spec: ToolSpec, reader: Reader) -> Shape:
    root = spec.input_schema
    schema = flattened(root, root)
    properties = _properties(schema)
    keywords = keywords_of(properties)
    required = texts_in(schema.get("required"))
    pieces: list[str | Record] = []
    for word, name in keywords.items():
        shape = _argument(word, properties[name], reader.of(properties[name], root, name), is_required=name in required)
        pieces += [", ", *shape] if pieces else shape
    others = schema.get("additionalProperties", "properties" not in schema)
    if len(keywords) < len(properties) or others is True or isinstance(others, Mapping):
        pieces += [", ..."] if pieces else ["..."]
    return tuple(pieces)


def _properties(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _argument(word: str, schema: Json, shape: Shape, *, is_required: bool) -> Shape:
    default = schema.get("default") if isinstance(schema, Mapping) else None
    if default is not None and len(text := literal(default)) <= _LONGEST_DEFAULT:
        return (f"{word}: ", *shape, f" = {text}")
    return (f"{word}: ", *shape) if is_required else (f"{word}?: ", *without_none(shape))


def _notes(spec: ToolSpec) -> Iterator[str]:
    root = spec.input_schema
    properties = _properties(flattened(root, root))
    keywords = keywords_of(properties)
    known = f"{spec.short_name or spec.name} {' '.join(sentences_of(spec.description)[:_KNOWN_SENTENCES])}"
    for word, name in keywords.items():
        schema = properties[name]
        has_default = isinstance(schema, Mapping) and "default" in schema
        note = note_on_argument(known, name, schema, has_default=has_default)
        if note:
            yield f"{word}: {note}"
        yield from (f"{path}: {inner}" for path, inner in inner_notes(known, word, schema, root))
    names = {name: word for word, name in keywords.items()}
    for example in spec.examples[:1]:
        if example.keys() <= names.keys():
            given = ", ".join(f"{names[name]}={literal(value)}" for name, value in example.items())
            yield one_line(f"e.g. {function_name(spec)}({given})", _LONGEST_EXAMPLE)
