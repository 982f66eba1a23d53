"""Values across Monty's wall: what it hands out made plain, and what goes in made known to it."""

import datetime as dt
import math
import re
from collections.abc import Callable, Container, Mapping
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from toolfold.models import Media, Value
from toolfold_guest.values import MAX_DEPTH

# Monty hands these out as text; no program prints its own data in these forms.
_STAND_IN: Final = re.compile(r"<(function|coroutine|module|bound method|iterator|built-in function)\b.*>")

_MAX_BITS: Final = 14_280  # 4300 decimal digits: the most that Python turns into text


class UnsendableError(TypeError):
    """A value has no form that crosses the wall; the text names its type and its place."""


def plain(value: Any, path: str, depth: int = 0, *, media: Container[UUID] = ()) -> Value:
    """A value of the program as JSON values, bytes and media; `path` says where it is in an error.

    `media` are the ids of those that the program was given: after a snapshot they come back as stand-ins.
    """
    if depth > MAX_DEPTH:
        raise UnsendableError(f"{path[:60]}... is nested more than {MAX_DEPTH} levels deep")
    if value is None or isinstance(value, bool | bytes | Media):
        return value
    if isinstance(value, int):
        return _number(value, path)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, dict):
        return {_key(key, path): plain(item, f"{path}[{key!r}]", depth + 1, media=media) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, f"{path}[{index}]", depth + 1, media=media) for index, item in enumerate(value)]
    if getattr(value, "is_dataclass", False) and hasattr(value, "attributes"):
        if value.id in media:
            return Media(**value.attributes)
        return plain(value.attributes, path, depth + 1, media=media)
    return _scalar(value, path)


def for_guest(value: Value, wrap: Callable[[Media], object]) -> Any:
    """A reply as Monty takes it: itself, with each media in it wrapped."""
    if isinstance(value, Media):
        return wrap(value)
    if isinstance(value, list | tuple):
        return [for_guest(item, wrap) for item in value]
    if isinstance(value, Mapping):
        return {key: for_guest(item, wrap) for key, item in value.items()}
    return value


def _scalar(value: Any, path: str) -> Value:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return plain(float(value), path)
    if isinstance(value, UUID | PurePath):
        return str(value)
    raise _unsendable(path, _type_name(value))


def _number(value: int, path: str) -> int:
    if value.bit_length() > _MAX_BITS:
        raise UnsendableError(f"{path} is a number with more than 4300 digits, which cannot be sent")
    return value


def _text(value: str, path: str) -> str:
    stand_in = _STAND_IN.fullmatch(value)
    if stand_in:
        raise _unsendable(path, stand_in[1])
    return value


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int | float):
        return str(key)
    try:
        simpler = _scalar(key, path)
    except UnsendableError:
        simpler = None
    if simpler is None:
        raise UnsendableError(f"{path} has a key of type {_type_name(key)!r}; keys must be text or numbers")
    return str(simpler)


def _type_name(value: Any) -> str:
    # Monty's stand-in for an instance of the program's own class carries the class's name.
    return value.name if hasattr(value, "attributes") else type(value).__name__


def _unsendable(path: str, name: str) -> UnsendableError:
    return UnsendableError(f"{path} is a {name!r}, which cannot be sent; make it JSON values or bytes first")
