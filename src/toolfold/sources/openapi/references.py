"""Where the references of a document lead. Only within the document: nothing is fetched for one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from toolfold.models import Json
from toolfold.prompts.schema_types import target_of

_DEEPEST: Final = 20
_SCHEMAS: Final = "#/components/schemas/"
_ELSEWHERE: Final = re.compile(rb'"\$ref":"(#/(?!components/schemas/[^/"]+")[^"]+)"')
_REMOTE: Final = re.compile(rb'"\$ref":"([^#"][^"]*)"')


class References:
    """The references of one document."""

    def __init__(self, document: Mapping[str, Json]) -> None:
        self._document = document

    def resolve(self, value: Json) -> Json:
        """The value, or what its `$ref` leads to in the end; `None` for nothing."""
        for _ in range(_DEEPEST):
            if not isinstance(value, Mapping) or not isinstance(value.get("$ref"), str):
                return value
            value = target_of(value["$ref"], self._document)
        return None

    def look(self, reference: str) -> Json | None:
        """What a schema's reference leads to."""
        return target_of(reference, self._document)

    def packed(self) -> dict[str, bytes]:
        """All that schemas may refer to, by reference, each packed on its own."""
        encode = msgspec.msgpack.Encoder().encode
        schemas = self.resolve(self._document.get("components")) or {}
        named = schemas.get("schemas") if isinstance(schemas, Mapping) else None
        packed = {f"{_SCHEMAS}{name}": encode(one) for name, one in _items(named)}
        for found in set(_ELSEWHERE.findall(msgspec.json.encode(self._document))):
            reference = found.decode()
            if "\\" not in reference and (target := self.look(reference)) is not None:
                packed[reference] = encode(target)
        return packed

    def remote(self) -> list[str]:
        """References that lead out of the document."""
        found = _REMOTE.findall(msgspec.json.encode(self._document))
        return sorted({one.decode(errors="replace") for one in found})


class PackedSchemas:
    """What packed references lead to; each is unpacked once, and sent to other processes packed."""

    def __init__(self, schemas: Mapping[str, bytes]) -> None:
        self._schemas = schemas
        self._unpacked: dict[str, Json] = {}

    def __call__(self, reference: str) -> Json | None:
        if reference not in self._schemas:
            return None
        if reference not in self._unpacked:
            self._unpacked[reference] = msgspec.msgpack.decode(self._schemas[reference])
        return self._unpacked[reference]

    def __reduce__(self) -> tuple[type[PackedSchemas], tuple[Mapping[str, bytes]]]:
        return PackedSchemas, (self._schemas,)


def _items(value: Json) -> list[tuple[str, Json]]:
    return [(str(key), one) for key, one in value.items()] if isinstance(value, Mapping) else []
