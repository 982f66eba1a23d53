"""What the log says of a failed call: its error, without what the call was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from toolfold.models import Value

MAX_MESSAGE_CHARACTERS: Final = 500
_SHORTEST_VALUE: Final = 3
_MOST_VALUES: Final = 1000


def told_error(error: str, arguments: Mapping[str, Value]) -> str:
    """The error on one line, with `***` for each text among the arguments: tools repeat them, and some are secret."""
    return cut(repr(hidden(error, arguments)))


def hidden(text: str, arguments: Mapping[str, Value]) -> str:
    """The text with `***` for each text among the arguments."""
    for number, given in enumerate(sorted(set(_texts(arguments)), key=len, reverse=True)):
        if number >= _MOST_VALUES:
            return "(not shown: too many arguments to hide)"
        text = text.replace(given, "***")
    return text


def cut(text: str) -> str:
    """Not longer than a line of a log should be."""
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[: MAX_MESSAGE_CHARACTERS - 1] + "…"


def _texts(value: Value) -> Iterator[str]:
    match value:
        case str() if len(value) >= _SHORTEST_VALUE:
            yield value
        case Mapping():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)
