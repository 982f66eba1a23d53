"""Values to bytes and back, exactly: MessagePack, with marks for what it does not know; mostly one call into C.

What is read back is checked for its types, but not for its size: whoever reads bytes that others wrote does that first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec

from toolfold.errors import UsageError
from toolfold.models import Media

# How a map of five that begins with the key `kind` looks; a `Media` that was taken for a plain dataclass.
_LOOKS_LIKE_MEDIA: Final = b"\x85\xa4kind"
_MEDIA: Final = 1
_BIG_INT: Final = 2

_T = TypeVar("_T")


# Any: whatever a record holds.
def encode(obj: Any) -> bytes:
    """Dataclasses, JSON values, `bytes` and `Media`, nested at will.

    Raises:
        UsageError: naming the type that cannot be kept.
    """
    try:
        raw = _encoder.encode(obj)
        return _encoder.encode(_marked(obj)) if _LOOKS_LIKE_MEDIA in raw else raw
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(_marked(obj))


def encode_ordered(obj: Any) -> bytes:
    """The same, with keys in one order: equal bytes for equal values."""
    try:
        return _ordered.encode(obj)
    except (OverflowError, UnicodeEncodeError):
        return _ordered.encode(_marked(obj))


def _marked(obj: Any) -> Any:
    """The same with marks where MessagePack has no form, or where ours would be taken for another."""
    match obj:
        case Media():
            fields = (obj.kind, obj.mime, obj.data, obj.uri, obj.name)
            return msgspec.msgpack.Ext(_MEDIA, _encoder.encode(_marked(fields)))
        case str():
            # Only a broken tool's error text has a lone surrogate; it is shown, not compared.
            return obj.encode("utf-8", "backslashreplace").decode()
        case int() if not -(2**63) <= obj < 2**64:
            return msgspec.msgpack.Ext(_BIG_INT, hex(obj).encode())
        case list() | tuple():
            return [_marked(one) for one in obj]
        case Mapping():
            return {_marked(key): _marked(one) for key, one in obj.items()}
        case msgspec.Struct() if obj.__struct_config__.array_like:
            values = [_marked(getattr(obj, name)) for name in obj.__struct_fields__]
            tag = obj.__struct_config__.tag
            return values if tag is None else [tag, *values]
        case msgspec.Struct():
            return {name: _marked(getattr(obj, name)) for name in obj.__struct_fields__}
        case _ if dataclasses.is_dataclass(obj):
            return {field.name: _marked(getattr(obj, field.name)) for field in dataclasses.fields(obj)}
        case _:
            return obj


def _revive(code: int, data: memoryview) -> Any:
    if code == _MEDIA:
        kind, mime, content, uri, name = _media.decode(data)
        return Media(kind=kind, mime=mime, data=content, uri=uri, name=name)
    if code == _BIG_INT:
        return int(bytes(data), 16)
    return msgspec.msgpack.Ext(code, bytes(data))


def _refuse(obj: Any) -> Any:
    if isinstance(obj, Mapping):
        return dict(obj)
    raise UsageError(f"a value of type {type(obj).__name__!r} cannot be kept; JSON values, bytes and Media can")


def decoder(kind: type[_T]) -> msgspec.msgpack.Decoder[_T]:
    """Reads what `encode` wrote of one kind."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_revive)


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_refuse)
_ordered: Final = msgspec.msgpack.Encoder(enc_hook=_refuse, order="deterministic")
_media: Final = msgspec.msgpack.Decoder(tuple[Literal["image", "audio", "link", "file"], str, bytes, str, str])
