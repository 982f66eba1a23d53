"""Values across Monty's wall: what it hands out made plain, and what goes in made known to it."""

import math
import re
from collections.abc import Callable, Container, Iterable, Mapping
from types import ModuleType
from typing import Any, Final
from uuid import UUID

from toolfold.models import Media, Value
from toolfold_guest.shared.value_rules import (
    MAX_DEPTH,
    can_be_sent,
    digits,
    escaped,
    infinite,
    is_text,
    key_text,
    not_text,
    simplify,
    text_of,
    too_deep,
    too_long,
)

# Monty hands these out as text; no program prints its own data in these forms.
_STAND_IN: Final = re.compile(r"<(function|coroutine|module|bound method|iterator|built-in function)\b.*>")

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


_MEDIA_TYPE: Final = UUID("5f1f4c9e-6a53-4b0e-9d3c-7a4f2f1f0c11")
"""The same in every process, so that what a snapshot holds is of the same class as what comes after it."""


class UnsendableError(TypeError):
    """A value has no form that crosses the wall; the text names its type and its place."""


def plain(
    value: Any, path: str, *, media: Container[UUID] = (), notes: list[str] | None = None, depth: int = 0
) -> Value:
    """A value of the program as JSON values, bytes and media; `path` says where it is in an error.

    Args:
        value: As Monty hands it out.
        path: Its name in an error.
        media: The ids of those that the program was given: after a snapshot they come back as stand-ins.
        notes: If given, nothing is refused: what has no form becomes its text, and a note is added.
        depth: How many lists and dicts it is in already.
    """
    return _Walk(media, notes).plain(value, path, depth)


class _Walk:
    """One walk through one value, by the rules of `toolfold_guest.shared.value_rules`."""

    def __init__(self, media: Container[UUID], notes: list[str] | None) -> None:
        self._media = media
        self._notes = notes

    def plain(self, value: Any, path: str, depth: int) -> Value:
        if value is None or isinstance(value, bool | bytes | Media):
            return value
        if isinstance(value, int):
            return self._number(value, path)
        if isinstance(value, float):
            return self._float(value, path)
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, dict | list | tuple) and depth >= MAX_DEPTH:
            return self._as_text(text_of(value), too_deep(path), "")
        if isinstance(value, dict):
            return self._record(value, path, depth)
        if isinstance(value, list | tuple):
            return [self.plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        if getattr(value, "is_dataclass", False) and hasattr(value, "attributes"):
            is_media = value.id in self._media
            return Media(**value.attributes) if is_media else self.plain(value.attributes, path, depth)
        simpler = bytes(value) if isinstance(value, bytearray | memoryview) else simplify(value)
        if simpler is NotImplemented or hasattr(value, "attributes"):
            return self._unsendable(value, path, _type_name(value))
        return self.plain(simpler, path, depth)

    def _record(self, value: dict[Any, Any], path: str, depth: int) -> Value:
        found: dict[str, Value] = {}
        for key, item in value.items():
            name = self._key(key, path)
            if name in found:
                clash = f"{path} has two keys that are both {name!r} as text"
                self._as_text("", clash, "make them different first", "its items were sent as pairs")
                return self.plain([[key, item] for key, item in value.items()], path, depth)
            found[name] = self.plain(item, f"{path}[{key!r}]", depth + 1)
        return found

    def _number(self, value: int, path: str) -> Value:
        return int(value) if can_be_sent(value) else self._as_text(digits(value), too_long(path), "")

    def _float(self, value: float, path: str) -> Value:
        if math.isfinite(value):
            return float(value)
        return None if math.isnan(value) else self._as_text(str(value), infinite(path), "send None or text")

    def _text(self, value: str, path: str) -> Value:
        stand_in = _STAND_IN.fullmatch(value)
        if stand_in:
            return self._unsendable(value, path, stand_in[1])
        if not is_text(value):
            return self._as_text(escaped(value), not_text(path), "", "it was escaped")
        return str.__str__(value)

    def _key(self, key: Any, path: str) -> str:
        text = key_text(key)
        if text is not None:
            return text if is_text(text) else self._as_text(escaped(text), not_text(f"a key of {path}"), "")
        message = f"{path} has a key of type {_type_name(key)!r}; keys must be text or numbers"
        return self._as_text(text_of(key), message, "", None)

    def _unsendable(self, value: Any, path: str, name: str) -> str:
        if self._notes is None:
            raise UnsendableError(f"{path} is a {name!r}, which cannot be sent; make it JSON values or bytes first")
        self._notes.append(f"{path} is a {name!r}, which has no JSON form; its text was sent")
        if isinstance(value, str):
            return _ADDRESS.sub("", value.replace("'", ""))
        return f"<{name} object>" if hasattr(value, "attributes") else text_of(value)

    def _as_text(self, text: str, message: str, advice: str, told: str | None = "its text was sent") -> str:
        """The text in place of what has no form, if that is allowed."""
        if self._notes is None:
            raise UnsendableError(f"{message}; {advice}" if advice else message)
        if told is not None:
            self._notes.append(f"{message}; {told}")
        return text


class MediaBox:
    """The media that a program was given: wrapped for Monty, which hands out stand-ins of them after a snapshot."""

    def __init__(self, monty: ModuleType, known: Iterable[str]) -> None:
        self._monty = monty
        self.ids = {UUID(one) for one in known}
        """Of all that were ever given."""

    def wrap(self, media: Media) -> object:
        """As Monty takes it."""
        kind = self._monty.ClassType(Media, id=_MEDIA_TYPE)
        wrapped = self._monty.ClassInstance(media, eager_attrs="all", class_type=kind)
        self.ids.add(wrapped.id)
        return wrapped


def for_guest(value: Value, wrap: Callable[[Media], object]) -> Any:
    """A reply as Monty takes it: itself, with each media in it wrapped."""
    if isinstance(value, Media):
        return wrap(value)
    if isinstance(value, list | tuple):
        return [for_guest(item, wrap) for item in value]
    if isinstance(value, Mapping):
        return {key: for_guest(item, wrap) for key, item in value.items()}
    return value


def _type_name(value: Any) -> str:
    # Monty's stand-in for an instance of the program's own class carries the class's name.
    return value.name if hasattr(value, "attributes") else type(value).__name__
