"""Schemas from outside, bounded when they are taken in.

A few kilobytes of `$ref`s that each name the next one twice stand for more alternatives than any host can look at, in a
check of arguments or in a stub. Whoever takes in a schema of a stranger asks here first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from toolfold.models import Json

MAX_PARTS: Final = 20_000
"""With every `$ref` replaced by what it names."""
MAX_DEPTH: Final = 64
_MOST_FAILURES: Final = 20
"""Parameters that are too large, after which no others are weighed."""
_DEFINITIONS: Final = ("$defs", "definitions")

_LINES_A_MINUTE: Final = 100


class _Sparing(logging.Filter):
    """A stranger may send such schemas as often as they like; the first ones of a minute tell what there is to know."""

    def __init__(self) -> None:
        super().__init__()
        self._minute, self._lines = 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(record.created // 60)
        self._lines = self._lines + 1 if minute == self._minute else 1
        self._minute = minute
        return self._lines <= _LINES_A_MINUTE


_log: Final = logging.getLogger(__name__)
_log.addFilter(_Sparing())


def bounded(schema: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """The schema, or one where parameters that stand for too much take anything."""
    if is_bounded(schema):
        return schema
    _log.warning("the schema of %r is used in part: with its references followed it is too large", name)
    properties = schema.get("properties")
    shown = dict(list(properties.items())[:MAX_PARTS]) if isinstance(properties, Mapping) else {}
    kept = _within_bounds(schema, shown)
    required = schema.get("required")
    known = [one for one in required if one in shown] if isinstance(required, list) else []
    rest = {"type": "object", "properties": {one: kept.get(one, {}) for one in shown}, "required": known}
    words = {word: schema[word] for word in _DEFINITIONS if word in schema} if kept else {}
    return {**rest, **_with_definitions(words, kept)}


def _within_bounds(schema: Mapping[str, Json], properties: Mapping[str, Json]) -> dict[str, Json]:
    """The first properties that stay within `MAX_PARTS` together."""
    kept: dict[str, Json] = {}
    left, failures = MAX_PARTS, 0
    for name, one in properties.items():
        try:
            # Anew for each: what was begun and not finished has no weight.
            weight = _Weighing(schema).weigh(one, 1)
        except _TooMuch:
            weight = MAX_PARTS + 1
        if weight <= left:
            kept[name] = one
            left -= weight
            continue
        failures += 1
        if failures == _MOST_FAILURES:
            break
    return kept


# Any: whatever a stranger put into a schema.
def _with_definitions(words: Mapping[str, Any], kept: Mapping[str, Json]) -> dict[str, Json]:
    """Of the definitions, those that the kept properties refer to; the others may be the ones without an end."""
    wanted: dict[str, set[str]] = {word: set() for word in words}
    parts: list[Any] = list(kept.values())
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            word, name = _definition(part.get("$ref"))
            if isinstance(words.get(word), Mapping) and name in words[word] and name not in wanted[word]:
                wanted[word].add(name)
                parts.append(words[word][name])
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
    return {word: {name: words[word][name] for name in sorted(names)} for word, names in wanted.items() if names}


def _definition(reference: object) -> tuple[str, str]:
    """The word and the name in `#/$defs/name`."""
    if not isinstance(reference, str):
        return "", ""
    _, word, name, *_ = (*unquote(reference).split("/", 3), "", "", "")
    return word, name.replace("~1", "/").replace("~0", "~")


def is_bounded(schema: Mapping[str, Json]) -> bool:
    """Whether it stays within `MAX_PARTS` and `MAX_DEPTH` with its references followed."""
    try:
        _Weighing(schema).weigh(schema, 0)
    except _TooMuch:
        return False
    return True


class _TooMuch(Exception):
    pass


class _Weighing:
    """Counts each part once for every way that leads to it, without going any of them twice."""

    def __init__(self, root: Mapping[str, Json]) -> None:
        self._root = root
        self._weights: dict[str, int] = {}

    # Any: whatever a stranger put into a schema.
    def weigh(self, part: Any, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise _TooMuch
        weight = 1
        if isinstance(part, Mapping):
            reference = part.get("$ref")
            if isinstance(reference, str):
                weight += self._referred(reference, depth)
            weight += sum(self.weigh(one, depth + 1) for one in part.values())
        elif isinstance(part, list):
            weight += sum(self.weigh(one, depth + 1) for one in part)
        if weight > MAX_PARTS:
            raise _TooMuch
        return weight

    def _referred(self, reference: str, depth: int) -> int:
        if reference not in self._weights:
            self._weights[reference] = 0  # a way back to where it began adds nothing
            self._weights[reference] = self.weigh(self._found(reference), depth + 1)
        return self._weights[reference]

    def _found(self, reference: str) -> Any:
        part: Any = self._root
        if not reference.startswith("#/"):
            return None
        for step in unquote(reference[2:]).split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(part, Mapping):
                part = part.get(key)
            elif isinstance(part, list) and key.isdigit():
                part = part[int(key)] if int(key) < len(part) else None
            else:
                return None
        return part
