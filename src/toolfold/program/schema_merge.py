"""Schemas joined as `allOf` joins them, and local `$ref`s followed; for types, not for validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from toolfold.models import Json

_DEEPEST: Final = 20
_SAYS_TYPE: Final = frozenset({
    "$ref", "type", "enum", "const", "properties", "items", "prefixItems", "additionalProperties",
    "patternProperties", "allOf", "anyOf", "oneOf", "nullable",
})  # fmt: skip


def is_informative(schema: Json) -> bool:
    """Whether it says something of the type; a description or a limit does not."""
    return schema is False or (isinstance(schema, Mapping) and not _SAYS_TYPE.isdisjoint(schema))


def target_of(pointer: str, root: Json) -> Json | None:
    """What a `$ref` within this document points to; `None` if there is nothing, or it is elsewhere."""
    if not pointer.startswith("#"):
        return None
    here = root
    for step in unquote(pointer[1:]).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and key in here:
            here = here[key]
        elif isinstance(here, list) and key.isdecimal() and int(key) < len(here):
            here = here[int(key)]
        else:
            return None
    return here


def flattened(schema: Json, root: Json) -> Mapping[str, Json]:
    """The schema with its `$ref` and `allOf` taken in."""
    return _flattened(schema, root, set(), _DEEPEST)


def _flattened(schema: Json, root: Json, seen: set[str], depth: int) -> Mapping[str, Json]:
    if not isinstance(schema, Mapping) or depth < 0:
        return {}
    whole = {key: one for key, one in schema.items() if key not in ("$ref", "allOf")}
    pointer, parts = schema.get("$ref"), schema.get("allOf")
    # Each once: taken in again it adds nothing, and in a circle it would never end.
    if isinstance(pointer, str) and pointer not in seen:
        seen.add(pointer)
        whole = merged(whole, _flattened(target_of(pointer, root), root, seen, depth - 1))
    for part in parts if isinstance(parts, list) else ():
        whole = merged(whole, _flattened(part, root, seen, depth - 1))
    return whole


def merged(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    """Both at once; where they contradict each other, the second."""
    both = {**one, **other}
    if isinstance(one.get("properties"), Mapping) and isinstance(other.get("properties"), Mapping):
        both["properties"] = _merged_properties(one["properties"], other["properties"])
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        both["required"] = [*one["required"], *other["required"]]
    for word in ("anyOf", "oneOf"):
        # Two choices at once have no simple type; the first is as good as the second.
        if word in one and word in other:
            both[word] = one[word]
    return both


def _merged_properties(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    both = {**one, **other}
    for name in one.keys() & other.keys():
        if isinstance(one[name], Mapping) and isinstance(other[name], Mapping) and "$ref" not in one[name]:
            both[name] = {**one[name], **other[name]}
    return both
