"""Sendable values, made from what a tool returned: JSON values, `bytes` and `Media`.

`toolfold_guest.shared.value_rules` says what becomes what, for replies as for what programs send, and how much of it; a
float NaN or infinity stays a float here.

Everything else is refused with its type and place, never sent as its text: the `repr` of a host's object may tell what
no program should know. Written by hand because the libraries that do this are either slow on plain data or keep tuples
and drop bytes.
"""

from __future__ import annotations

import dataclasses
import gc
import sys
import uuid
from collections import deque
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, ValuesView
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from typing import Any, Final, TypeAlias

import msgspec

from toolfold.errors import ToolError
from toolfold.models import Media, Value
from toolfold_guest.shared.value_rules import (
    LONGEST_RANGE,
    MAX_DEPTH,
    MAX_DIGITS,
    frame_columns,
    in_order,
    key_text,
    simplify,
)

MAX_ITEMS: Final = 10_000_000
"""Values in one reply; stops a list that holds itself many times over."""

LEAVES: Final = frozenset({str, int, float, bool, type(None), bytes, Media})
_PLAIN: Final = LEAVES | {list, dict}
_SHOWN_STEPS: Final = 10
# From 3.13 on the collector is shown no values of an instance's `__dict__`; next to a dict with
# other keys, of which it is shown too many, the sum over both would look right.
_COUNT_EACH: Final = sys.version_info >= (3, 13)
_encoder: Final = msgspec.json.Encoder()


def to_value(obj: object) -> Value:
    """The data as something that can be sent, plain data not copied; `ToolError` names a type that cannot be."""
    return to_sized_value(obj)[0]


def to_sized_value(obj: object) -> tuple[Value, int]:
    """`to_value` and `json_size` in one pass over the data."""
    value = obj if is_plain(obj) else _Shaper().start(obj)
    try:
        return value, len(_encoder.encode(value))
    except UnicodeEncodeError:
        raise ToolError(_refusal("text with a lone surrogate", _unencodable_path(value))) from None
    except ValueError:  # of an integer, which Python turns into text only so far
        subject = f"an integer of more than {MAX_DIGITS} digits"
        raise ToolError(_refusal(subject, _unencodable_path(value))) from None


def json_size(value: Value) -> int:
    """Bytes of a value as compact JSON; `bytes` and `Media` count as base64."""
    return len(_encoder.encode(value))


def parse_json(text: str) -> Value:
    """Text that begins like an object or a list in JSON as what it says; other text as it is."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text


def is_plain(obj: object) -> bool:
    """Whether this is made of sendable types only, level by level, so nearly all of it runs in C.

    `False` may be a false alarm and only costs a walk; `True` is certain.
    """
    if type(obj) in LEAVES:
        return True
    level = [obj]
    items = 0
    for _ in range(MAX_DEPTH):
        kinds = set(map(type, level))
        if kinds <= LEAVES:
            return True
        if not kinds <= _PLAIN:
            return False
        boxes = level if kinds.isdisjoint(LEAVES) else [item for item in level if type(item) in (list, dict)]
        # mypy cannot see that only lists and dicts are left.
        size = sum(map(len, boxes))  # type: ignore[arg-type]
        items += size
        if items > MAX_ITEMS:
            return False
        level = gc.get_referents(*boxes)
        if len(level) != size or (_COUNT_EACH and not all(map(_shows_values_only, boxes))):
            return False
    return LEAVES.issuperset(map(type, level))


def _shows_values_only(box: Any) -> bool:
    """Whether the collector sees all values in a list or dict, and no keys.

    It is shown the keys of a dict only if one of them is not exactly a `str`.
    """
    return len(gc.get_referents(box)) == len(box)


class _RefusedError(Exception):
    """Cannot be sent; `path` grows from the inside out on the way up."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str | int] = []


class _Shaper:
    def __init__(self) -> None:
        self._remaining_items = MAX_ITEMS

    def start(self, obj: object) -> Value:
        try:
            return self.value(obj, 0)
        except _RefusedError as refused:
            raise ToolError(_refusal(str(refused), refused.path[::-1])) from None

    def value(self, obj: object, depth: int) -> Value:
        kind: type = type(obj)
        return obj if kind in LEAVES else _reader(kind)(self, obj, depth)

    def items(self, obj: Iterable[object], depth: int) -> list[Value]:
        self._enter(obj, depth)
        out: list[Value] = []
        for item in obj:
            try:
                out.append(item if type(item) in LEAVES else self.value(item, depth + 1))
            except _RefusedError as refused:
                refused.path.append(len(out))
                raise
        return out

    def record(self, obj: Mapping[Any, object], depth: int) -> dict[str, Value]:
        self._enter(obj, depth)
        out: dict[str, Value] = {}
        for key, item in obj.items():
            name = key if type(key) is str else self.key(key)
            if name in out:
                raise _RefusedError(f"two keys that are both {name!r} as text")
            try:
                out[name] = item if type(item) in LEAVES else self.value(item, depth + 1)
            except _RefusedError as refused:
                refused.path.append(name)
                raise
        return out

    def key(self, key: object) -> str:
        text = key_text(key)
        if text is None:
            raise _RefusedError(f"a key of type {type(key).__name__}")
        return text

    def _enter(self, obj: Any, depth: int) -> None:  # Any: whatever has a length
        if depth >= MAX_DEPTH:
            raise _RefusedError(f"more than {MAX_DEPTH} lists and dicts within each other")
        self._remaining_items -= len(obj)
        if self._remaining_items < 0:
            raise _RefusedError(f"more than {MAX_ITEMS:,} values")


# Any: each reader is picked by the type that it takes.
_Reader: TypeAlias = Callable[[_Shaper, Any, int], Value]

# The first that fits wins, so a type stands before its bases.
_BY_BASE: Final[tuple[tuple[type | tuple[type, ...], _Reader], ...]] = (
    (Enum, lambda shaper, obj, depth: shaper.value(obj.value, depth)), (str, lambda _, obj, __: str.__str__(obj)),
    (int, lambda _, obj, __: int.__int__(obj)), (float, lambda _, obj, __: float.__float__(obj)),
    ((datetime, date, time), lambda _, obj, __: obj.isoformat()), (timedelta, lambda _, obj, __: obj.total_seconds()),
    ((Decimal, Fraction, complex), lambda _, obj, __: simplify(obj)),
    ((uuid.UUID, PurePath, IPv4Address, IPv6Address, IPv4Network, IPv6Network), lambda _, obj, __: str(obj)),
    ((bytes, bytearray, memoryview), lambda _, obj, __: bytes(obj)), (Mapping, _Shaper.record),
    (range, lambda shaper, obj, depth: (_refuse if len(obj) > LONGEST_RANGE else _Shaper.items)(shaper, obj, depth)),
    ((list, tuple, deque, KeysView, ValuesView, ItemsView), _Shaper.items),
    ((set, frozenset), lambda shaper, obj, depth: shaper.items(in_order(obj), depth)),
)  # fmt: skip


@lru_cache(maxsize=1024)
def _reader(kind: type) -> _Reader:
    """Reader for one type; cached, because the checks cost more than the reading."""
    reader = _library_reader(kind)
    if reader is not None:
        return reader
    for bases, reader in _BY_BASE:
        if issubclass(kind, bases):
            return reader
    if hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_dump"):
        return lambda shaper, obj, depth: shaper.value(obj.model_dump(by_alias=True), depth)
    for names in _field_names(kind):
        return lambda shaper, obj, depth: shaper.record({name: getattr(obj, name) for name in names}, depth)
    return _refuse


def _library_reader(kind: type) -> _Reader | None:
    """Readers for the types of libraries that may not be there."""
    if _is_from(kind, "pandas") and hasattr(kind, "iterrows"):
        return _frame
    if _is_from(kind, "numpy", "pandas", "polars", "sympy", "mpmath"):
        return _foreign
    if kind.__name__.endswith("Url") and _is_from(kind, "pydantic", "pydantic_core"):
        return lambda _, obj, __: str(obj)
    return None


def _is_from(kind: type, *packages: str) -> bool:
    return kind.__module__.partition(".")[0] in packages


def _field_names(kind: type) -> Iterable[tuple[str, ...]]:
    if dataclasses.is_dataclass(kind):
        yield tuple(field.name for field in dataclasses.fields(kind))
    elif hasattr(kind, "__attrs_attrs__"):
        yield tuple(field.name for field in kind.__attrs_attrs__)
    elif hasattr(kind, "__struct_fields__"):
        yield tuple(kind.__struct_fields__)


def _refuse(_: _Shaper, obj: object, __: int) -> Value:
    raise _RefusedError(type(obj).__name__)


def _foreign(shaper: _Shaper, obj: Any, depth: int) -> Value:
    """Value of a library's type by the shared rules; types that these do not name are refused."""
    simpler = simplify(obj)
    return _refuse(shaper, obj, depth) if simpler is NotImplemented else shaper.value(simpler, depth)


def _frame(shaper: _Shaper, obj: Any, depth: int) -> list[Value]:
    """Records, column by column: five times as fast as row by row."""
    names, columns = frame_columns(obj)
    if not names:
        return [{} for _ in range(len(obj))]
    shaped = [shaper.items(column, depth + 1) for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*shaped, strict=True)]


def _unencodable_path(value: Value) -> list[str | int]:
    """Where the first text or number is that has no form in JSON; called only if there is one."""
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            try:
                _encoder.encode({key: item} if isinstance(key, str) else item)
            except ValueError:
                return [_printable(key), *_unencodable_path(item)]
    return []


def _printable(key: str | int) -> str | int:
    return key.encode("utf-8", "replace").decode() if isinstance(key, str) else key


def _refusal(subject: str, path: list[str | int]) -> str:
    return f"a value that cannot be sent: {subject}" + (f" at {show_path(path)}" if path else "")


def show_path(path: Iterable[str | int]) -> str:
    """`rows[3]['when']`: a place within a value, as Python would reach it."""
    first, *rest = path
    root = first if isinstance(first, str) and first.isidentifier() else f"[{first!r}]"
    steps = "".join(f"[{step!r}]" for step in rest[:_SHOWN_STEPS])
    return f"{root}{steps}{'…' if len(rest) > _SHOWN_STEPS else ''}"
