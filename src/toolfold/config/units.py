"""Sizes, durations and counts as people write them: `64MiB`, `30m`, `1000`.

Numbers may also come as text, because `${VAR}` gives text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

_SIZES: Final = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30,
}  # fmt: skip
_DURATIONS: Final = {"": 1.0, "MS": 0.001, "S": 1.0, "M": 60.0, "H": 3600.0, "D": 86400.0, "W": 7 * 86400.0}
_MEASURE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_LARGEST: Final = 2**53
"""Beyond it a float no longer counts every integer; nobody means such a size."""
_VARIABLE: Final = {"type": "string", "pattern": r"\$\{"}


def must_be(what: str) -> PydanticCustomError:
    """The error of a value that is something else; `load` adds what it is."""
    return PydanticCustomError("must_be", "must be {what}", {"what": what})


# Any: what the YAML file holds may be anything.
def _measured(value: Any, units: Mapping[str, float], what: str) -> float:
    number = _number_of(value, units)
    if number is None or not math.isfinite(number) or not 0 < number <= _LARGEST:
        raise must_be(what)
    return number


def _number_of(value: Any, units: Mapping[str, float]) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    match = _MEASURE.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = units.get(match[2].upper()) if match else None
    return None if match is None or factor is None else float(match[1]) * factor


def _size(value: Any) -> int:
    what = "a size such as 65536, 64KiB or 10MB"
    size = _measured(value, _SIZES, what)
    if size != int(size):
        raise must_be(f"{what}, in whole bytes")
    return int(size)


def _duration(value: Any) -> float:
    return _measured(value, _DURATIONS, "a duration above 0 such as 30s, 15m, 2h or 7d; a number is seconds")


def seconds_of(text: str) -> float | None:
    """A duration as people write it; `None` if it is none."""
    try:
        return _duration(text)
    except PydanticCustomError:
        return None


def _seconds(value: Any) -> float:
    return _measured(value, {"": 1.0}, "a number of seconds above 0")


def _count(value: Any) -> int:
    what = "a whole number above 0"
    number = _measured(value, {"": 1.0}, what)
    if number != int(number):
        raise must_be(what)
    return int(number)


def _schema(kind: str, pattern: str | None = None) -> WithJsonSchema:
    number = {"type": kind, "exclusiveMinimum": 0}
    texts = [_VARIABLE] if pattern is None else [{"type": "string", "pattern": pattern}, _VARIABLE]
    return WithJsonSchema({"anyOf": [number, *texts]})


Size = Annotated[
    int, BeforeValidator(_size), _schema("integer", r"^\s*\d+(\.\d+)?\s*([Bb]|[KkMmGg][Ii]?[Bb])?\s*$")
]  # fmt: skip
"""Bytes."""
Duration = Annotated[
    float, BeforeValidator(_duration), _schema("number", r"^\s*\d+(\.\d+)?\s*(ms|[smhdwSMHDW])?\s*$")
]  # fmt: skip
"""Seconds; the text may have a unit."""
Seconds = Annotated[float, BeforeValidator(_seconds), _schema("number")]
"""Seconds, for keys that say so in their name."""
Count = Annotated[int, BeforeValidator(_count), _schema("integer")]
