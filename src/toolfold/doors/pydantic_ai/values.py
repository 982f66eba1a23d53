"""What tools of Pydantic AI return, as values for a program, and a program's value back: pictures stay pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic_ai import AudioUrl, BinaryContent, DocumentUrl, ImageUrl, VideoUrl
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolfold.models import File, Media, Value
from toolfold.tools.values import is_plain

_LINKS: Final = {"image-url": ImageUrl, "audio-url": AudioUrl, "document-url": DocumentUrl, "video-url": VideoUrl}
_ASIDE: Final = (str, int, float, bytes, type(None))


# Any: a tool may return whatever Pydantic can write as JSON.
def to_program(returned: Any) -> Value:
    """Media as `Media`, everything else as its schema describes it; the router shapes what is left."""
    if is_plain(returned) or type(returned) in _ASIDE:
        return returned
    match returned:
        case BinaryContent():
            return Media(kind=_kind(returned), mime=returned.media_type, data=returned.data, name=returned.identifier)
        case ImageUrl() | AudioUrl() | DocumentUrl() | VideoUrl():
            return Media(kind="link", mime=_mime_of(returned), uri=returned.url, name=returned.kind)
        case Mapping():
            return {key: to_program(item) for key, item in returned.items()}
        case list() | tuple():
            return [to_program(item) for item in returned]
    try:
        return to_jsonable_python(returned, by_alias=True, bytes_mode="base64", inf_nan_mode="constants")
    except PydanticSerializationError:
        return returned  # arrays and tables, which the router knows, or nothing that can be sent: it says so


def to_model(value: Value) -> Any:
    """The same with `Media` as what Pydantic AI sends natively."""
    match value:
        case Media(kind="link"):
            link = _LINKS.get(value.name)
            return value.uri if link is None else link(url=value.uri)
        case Media():
            content = BinaryContent(data=value.data, media_type=value.mime, identifier=value.name or None)
            return BinaryContent.narrow_type(content)
        case dict():
            return {key: to_model(item) for key, item in value.items()}
        case list():
            return [to_model(item) for item in value]
    return value


def picture(file: File) -> BinaryContent:
    """A file that a program made, as content for the model."""
    content = BinaryContent(data=file.data, media_type=file.mime, identifier=file.name)
    return BinaryContent.narrow_type(content)


def has_media(value: Value) -> bool:
    """Whether a program's value is, or holds in a list, something that is not text."""
    return isinstance(value, Media) or (isinstance(value, list) and any(isinstance(item, Media) for item in value))


def _kind(content: BinaryContent) -> Literal["image", "audio", "file"]:
    if content.is_image:
        return "image"
    return "audio" if content.is_audio else "file"


def _mime_of(link: ImageUrl | AudioUrl | DocumentUrl | VideoUrl) -> str:
    try:
        return link.media_type
    except ValueError:  # an address that does not tell
        return "application/octet-stream"
