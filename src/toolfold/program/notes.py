"""What is worth saying of an argument besides its name, type and default, in few words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from toolfold.models import Json
from toolfold.program.schema_merge import flattened
from toolfold.program.words import one_line

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
"""They say nothing of an argument that its name and type do not."""
_FORMATS: Final = frozenset(
    {"date", "date-time", "time", "duration", "email", "uri", "uuid", "hostname", "ipv4", "ipv6"}
)
_BOUNDS: Final = {
    "minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}",
    "maxLength": "≤ {} characters", "maxItems": "≤ {} items",
}  # fmt: skip


def note_on_argument(known: str, name: str, schema: Json, *, has_default: bool) -> str:
    """The description without what the reader knows already, and the limits; empty if nothing is left.

    Args:
        known: Name and first sentence of the tool, whose words need not be said again.
        name: Of the argument.
        schema: Of the argument.
        has_default: The signature has its default.
    """
    if not isinstance(schema, Mapping):
        return ""
    told = schema.get("description")
    text = one_line(told, _LONGEST_NOTE) if isinstance(told, str) else ""
    text = _OPTIONAL.sub("", text).strip()
    text = (_DEFAULT.sub("", text) if has_default else text).rstrip(". ")
    text = "" if _repeats(f"{known} {name}", text) else _ARTICLE.sub("", text)
    limits = ", ".join(_limits(schema, text))
    return f"{text} ({limits})" if text and limits else text or limits


def inner_notes(known: str, name: str, schema: Json, root: Json) -> Iterator[tuple[str, str]]:
    """Notes on the keys of an argument that is a record, or a list of such, by `argument.key`."""
    record = flattened(schema, root)
    if isinstance(record.get("items"), Mapping):
        record = flattened(record["items"], root)
    properties = record.get("properties")
    if isinstance(properties, Mapping):
        for key, one in list(properties.items())[:_MOST_INNER]:
            note = note_on_argument(f"{known} {name}", key, one, has_default=False)
            if note and key.isidentifier():
                yield f"{name}.{key}", note


def _repeats(known: str, note: str) -> bool:
    return not set(_stems(note)) - set(_stems(known)) - _EMPTY_WORDS


def _stems(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        small = word.lower()
        yield small
        yield small[:-1] if len(small) > 3 and small.endswith("s") else small


def _limits(schema: Mapping[str, Json], text: str) -> Iterator[str]:
    kind = schema.get("format")
    if isinstance(kind, str) and kind in _FORMATS and kind not in text.lower():
        yield kind
    for word, written in _BOUNDS.items():
        bound = schema.get(word)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and abs(bound) < _LARGEST_BOUND:
            number = f"{bound:g}"
            # A description that has the number has said what it means.
            if number not in _NUMBER.findall(text):
                yield written.format(number)
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and 0 < len(pattern) <= _LONGEST_PATTERN and pattern.isprintable():
        yield f"matches {pattern}"
