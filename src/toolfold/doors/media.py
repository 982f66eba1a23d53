"""What a program gives, as JSON can hold it: whole, or with words for bytes, and the pictures by themselves."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from toolfold.models import MIB, File, Json, Media, Value

_MOST_IMAGES: Final = 10
_LARGEST_IMAGE_BYTES: Final = 5 * MIB


def value_as_json(value: Value) -> Json:
    """The whole value: bytes as `{"base64": ...}`, and null for numbers that JSON does not have."""
    match value:
        case bytes():
            return {"base64": base64.b64encode(value).decode("ascii")}
        case Media():
            fields = {"kind": value.kind, "mime": value.mime, "uri": value.uri, "name": value.name}
            return {**fields, "data": value_as_json(value.data)}
        case Mapping():
            return {str(key): value_as_json(one) for key, one in value.items()}
        case list() | tuple():
            return [value_as_json(one) for one in value]
        case float() if not math.isfinite(value):
            return None
    return value


def described(value: Value) -> Value:
    """The value for a model that reads text: a word in place of each medium and of bytes."""
    match value:
        case Media():
            return f"<{value.kind} {value.mime or value.uri}>"
        case bytes():
            return f"<{len(value)} bytes>"
        case dict():
            return {key: described(item) for key, item in value.items()}
        case list():
            return [described(item) for item in value]
    return value


def images_in(value: Value, files: Sequence[File] = ()) -> list[tuple[str, bytes]]:
    """Type and data of the pictures in a value and among files; not the huge ones, and not too many."""
    found = [(media.mime, media.data) for media in _media(value) if media.kind == "image"]
    found += [(file.mime, file.data) for file in files if file.mime.startswith("image/")]
    return [(mime, data) for mime, data in found if 0 < len(data) <= _LARGEST_IMAGE_BYTES][:_MOST_IMAGES]


def _media(value: Value) -> Iterator[Media]:
    match value:
        case Media():
            yield value
        case dict():
            for item in value.values():
                yield from _media(item)
        case list():
            for item in value:
                yield from _media(item)
