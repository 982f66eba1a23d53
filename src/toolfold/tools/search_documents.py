"""A tool as the words by which it is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from toolfold.models import Json, ToolSpec
from toolfold.tools.search_words import parts_of, words_of

_LONGEST_TEXT: Final = 4000
_DEEPEST_ARGUMENT: Final = 4
_MOST_ARGUMENTS: Final = 200
_LONGEST_MEANING: Final = 600
_MOST_NAMED: Final = 30


@dataclass(frozen=True, slots=True)
class Document:
    """A tool as the words it has."""

    spec: ToolSpec
    name: Counter[str]
    text: Counter[str]
    arguments: Counter[str]
    """Also of what it was seen to return."""


def document(spec: ToolSpec, known: Document | None) -> Document:
    """The words of a tool; those of `known` where it is the same tool."""
    if known is not None and known.spec is spec:
        return known
    name = Counter(words_of(spec.name[:_LONGEST_TEXT]))
    text = Counter(words_of(f"{spec.domain} {spec.description[:_LONGEST_TEXT]}"))
    arguments: Counter[str] = Counter()
    for argument in (*_argument_texts(spec.input_schema), *_argument_texts(spec.output_schema)):
        arguments.update(words_of(argument[:_LONGEST_TEXT]))
    return Document(spec, name, text, arguments)


def meaning(spec: ToolSpec) -> str:
    """A tool as one text for an embedder: it must not change with what the tool was seen to return."""
    properties = spec.input_schema.get("properties")
    names = list(properties)[:_MOST_NAMED] if isinstance(properties, Mapping) else []
    arguments = ", ".join(parts_of(str(name)) for name in names)
    return f"{parts_of(spec.name)}: {spec.description[:_LONGEST_MEANING]} {arguments}".rstrip()


def _argument_texts(schema: Json, depth: int = 0) -> Iterator[str]:
    """Names, descriptions and choices of arguments, and of what is in them."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or depth > _DEEPEST_ARGUMENT:
        return
    for name, inner in list(properties.items())[:_MOST_ARGUMENTS]:
        yield str(name)
        if not isinstance(inner, Mapping):
            continue
        if isinstance(inner.get("description"), str):
            yield inner["description"]
        if isinstance(inner.get("enum"), list):
            yield " ".join(map(str, inner["enum"][:_MOST_ARGUMENTS]))
        yield from _argument_texts(inner, depth + 1)
        yield from _argument_texts(inner.get("items"), depth + 1)
