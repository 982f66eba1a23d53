"""Media in the values of programs: values as JSON or as text for a model, and the images in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolfold.display import describe_media, media_in, value_as_json
from toolfold.models import MIB, File, Value

__all__ = ["describe_media", "images_in", "value_as_json"]

_MOST_IMAGES: Final = 10
_LARGEST_IMAGE_BYTES: Final = 5 * MIB


def images_in(value: Value, files: Sequence[File] = ()) -> list[tuple[str, bytes]]:
    """Type and data of the pictures in a value and among files; not the huge ones, and not too many."""
    images = [(media.mime, media.data) for media in media_in(value) if media.kind == "image"]
    images += [(file.mime, file.data) for file in files if file.mime.startswith("image/")]
    return [(mime, data) for mime, data in images if 0 < len(data) <= _LARGEST_IMAGE_BYTES][:_MOST_IMAGES]
