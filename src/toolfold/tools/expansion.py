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
    """The schema, or one with the names of its parameters only where it stands for too much."""
    if is_bounded(schema):
        return schema
    _log.warning("the schema of %r is used for its names only: with its references followed it is too large", name)
    properties = schema.get("properties")
    names = list(properties)[:MAX_PARTS] if isinstance(properties, Mapping) else []
    required = schema.get("required")
    known = [one for one in required if one in names] if isinstance(required, list) else []
    return {"type": "object", "properties": {one: {} for one in names}, "required": known}


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
