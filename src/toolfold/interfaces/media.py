"""Media in the values of programs: values as JSON or as text for a model, and the images in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from toolfold.display import value_as_json
from toolfold.models import MIB, File, Media, Value

__all__ = ["describe_media", "images_in", "value_as_json"]

_MOST_IMAGES: Final = 10
_LARGEST_IMAGE_BYTES: Final = 5 * MIB


def describe_media(value: Value) -> Value:
    """The value for a model that reads text: a word in place of each medium and of bytes."""
    match value:
        case Media():
            return f"<{value.kind} {value.mime or value.uri}>"
        case bytes():
            return f"<{len(value)} bytes>"
        case dict():
            return {key: describe_media(item) for key, item in value.items()}
        case list():
            return [describe_media(item) for item in value]
    return value


def images_in(value: Value, files: Sequence[File] = ()) -> list[tuple[str, bytes]]:
    """Type and data of the pictures in a value and among files; not the huge ones, and not too many."""
    images = [(media.mime, media.data) for media in _media(value) if media.kind == "image"]
    images += [(file.mime, file.data) for file in files if file.mime.startswith("image/")]
    return [(mime, data) for mime, data in images if 0 < len(data) <= _LARGEST_IMAGE_BYTES][:_MOST_IMAGES]


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
