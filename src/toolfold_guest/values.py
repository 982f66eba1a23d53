"""Values on their way out of the guest: Python objects to JSON text, with bytes and media marked.

The common case is one pass of the C encoder. Only what that refuses (NaN, odd keys, unknown
types, our own marks in a program's keys) takes the slow walk, which knows where it is.
"""

import base64
import dataclasses
import datetime
import enum
import json.encoder
import math
import sys
import types
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any
from uuid import UUID

from toolfold_guest.pending import PendingCall, value_of
from toolfold_guest.wire import BYTES_KEY, MEDIA_KEY

MAX_DEPTH = 200
MAX_INTEGER_BITS = 14_000  # near the most digits that Python itself turns into text

_LISTED: tuple[Any, ...] = (deque, range, type({}.keys()), type({}.values()), type({}.items()), types.GenericAlias)


class Media:
    """An image, a sound, a link or a file that a tool gave; hand it back or read its `data`."""

    __slots__ = ("data", "kind", "mime", "name", "uri")
    __module__ = "__main__"

    def __init__(self, kind: str, mime: str, data: bytes = b"", uri: str = "", name: str = "") -> None:
        self.kind, self.mime, self.data, self.uri, self.name = kind, mime, data, uri, name

    def __repr__(self) -> str:
        return f"<{self.kind} {self.mime} {len(self.data)} bytes{' ' + self.name if self.name else ''}>"


class Unsendable(TypeError):
    """A value has no form that crosses the wall; the text names its type and its place."""

    __module__, __qualname__ = "builtins", "TypeError"  # which is what it is to the program


def encode(value: Any, what: str) -> str:
    """JSON text of a value; `what` starts the path in an error, as in `value['rows'][3]`."""
    marks[0] = 0
    try:
        text = "".join(_c_encode(value, 0)) if _c_encode is not None else _py_encode(value)
        if text.count('"\\u0000') == marks[0] and (
            text.count("[") + text.count("{") <= MAX_DEPTH or _is_shallow(value)
        ):
            text.encode()  # lone surrogates
            return text
    except (ValueError, TypeError, RecursionError):
        _markers.clear()
    return _py_encode(_plain(value, what, 0))


marks = [0]  # how many of our marks the last encoding made; more in the text are the program's own
_markers: dict[int, object] = {}


def _default(value: object) -> object:
    found = _simplify(value)
    if found is NotImplemented:
        raise TypeError
    return found


def _simplify(value: Any) -> Any:
    """One step from a rich object towards JSON; `NotImplemented` if there is none."""
    if type(value) is PendingCall:
        return value_of(value)
    if isinstance(value, bytes | bytearray | memoryview):
        marks[0] += 1
        return {BYTES_KEY: base64.b64encode(value).decode("ascii")}
    if isinstance(value, Media):
        marks[0] += 1
        data = base64.b64encode(value.data).decode("ascii")
        return {MEDIA_KEY: [value.kind, value.mime, data, value.uri, value.name]}
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        # pandas' NaT is a datetime that equals nothing, not even itself.
        return value.isoformat() if value == value else None
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, UUID | PurePath):
        return str(value)
    if isinstance(value, set | frozenset):
        return _in_order(value)
    if isinstance(value, _LISTED):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return _simplify_foreign(value)


def _simplify_foreign(value: Any) -> Any:
    """Types of libraries that may not be loaded, known by their module and shape."""
    module = type(value).__module__.partition(".")[0]
    if module == "decimal":
        return float(value)  # text would break the sums of whoever reads it
    if module == "numpy" and hasattr(value, "tolist"):
        if value.dtype.kind in "mM":
            value = value.astype("datetime64[us]" if value.dtype.kind == "M" else "timedelta64[us]")
        plain = value.tolist()
        return NotImplemented if plain is value else plain
    if module == "pandas":
        if hasattr(value, "to_dict") and hasattr(value, "columns"):
            if any(name is not None for name in value.index.names):
                value = value.reset_index()  # the keys of a `groupby` are its index
            return value.to_dict("records")
        if hasattr(value, "tolist"):
            return value.tolist()
        if value is getattr(sys.modules.get("pandas"), "NA", NotImplemented):
            return None
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) and not isinstance(value, type) else NotImplemented


def _is_shallow(value: Any) -> bool:
    """Level by level, each container once; what is not a plain container has no depth to speak of."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for one in level for item in (one.values() if isinstance(one, dict) else one)
                 if isinstance(item, dict | list | tuple)] if level else []  # fmt: skip
        if not level:
            return True
    return False


def _in_order(items: set[Any] | frozenset[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:
        return list(items)


def _plain(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Unsendable(f"{path[:60]}... is nested more than {MAX_DEPTH} levels deep")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, int) and not isinstance(value, enum.Enum):
        return _number(value, path)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, dict):
        return {_key(key, path): _plain(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    before = marks[0]
    simpler = _simplify(value)
    if marks[0] != before:
        return simpler
    if simpler is NotImplemented:
        name = kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
        raise Unsendable(f"{path} is a {name!r}, which cannot be sent; make it JSON values or bytes first")
    return _plain(simpler, path, depth + 1)


def _number(value: int, path: str) -> int:
    if value.bit_length() > MAX_INTEGER_BITS:
        raise Unsendable(f"{path} is an integer of {value.bit_length()} bits; the limit is {MAX_INTEGER_BITS}")
    return int(value)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unsendable(f"{path} is text with a lone surrogate, which cannot be sent") from None
    return str.__str__(value)  # of an enum that is a str: its text, not its name


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        text = _text(key, f"a key of {path}")
        return "\0" + text if text.startswith("\0") else text
    if isinstance(key, enum.Enum):
        return _key(key.value, path)
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    simpler = _simplify(key)
    if isinstance(simpler, str):
        return _key(simpler, path)
    if isinstance(simpler, bool | int | float):
        return json.dumps(simpler)
    raise Unsendable(f"{path} has a key of type {type(key).__name__!r}; keys must be text or numbers")


_py_encode: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default
).encode

# One C encoder for the life of the guest: `json.dumps` builds a new one for each call, at 2 µs.
_make: Any = getattr(json.encoder, "c_make_encoder", None)
_c_encode: Any = _make and _make(
    _markers, _default, json.encoder.encode_basestring, None, ":", ",", False, False, False
)


def revive(value: Any) -> Any:
    """Replies with media in them: tuples of ours become `Media`; no other tuple is ever sent."""
    if isinstance(value, tuple):
        return Media(*value)
    if isinstance(value, list):
        return [revive(item) for item in value]
    if isinstance(value, dict):
        return {key: revive(item) for key, item in value.items()}
    return value
