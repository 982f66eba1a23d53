"""What the words of a JSON Schema mean as kinds of Python values; also the words that people write by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolfold.models import Json
from toolfold.program.unions import NONE, Union

SCALARS: Final[Mapping[str, Union]] = {
    "string": ("str",), "integer": ("int",), "number": ("float",), "boolean": ("bool",), "null": NONE,
    # No JSON Schema, but what people write by hand.
    "str": ("str",), "int": ("int",), "float": ("float",), "double": ("float",), "bool": ("bool",), "none": NONE,
}  # fmt: skip
ARRAYS: Final = frozenset({"array", "list", "tuple"})
OBJECTS: Final = frozenset({"object", "dict"})


def kinds_of(schema: Mapping[str, Json]) -> list[str]:
    """The values of `type`, in lower case; what the other keywords imply where there is none."""
    told = schema.get("type", _implied(schema))
    return [one.lower() if isinstance(one, str) else "" for one in (told if isinstance(told, list) else [told])]


def is_bytes(kind: str, schema: Mapping[str, Json]) -> bool:
    """Whether this is text that stands for bytes, as `sources.function_types` writes it."""
    return kind == "string" and schema.get("format") == "bytes"


def texts_in(value: Json) -> list[str]:
    """The texts of a list such as `required`; none if it is anything else."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []


def array_parts(schema: Mapping[str, Json]) -> tuple[list[Json], Json]:
    """The schemas of the first items and that of all further ones, whichever draft it is written in."""
    rest, first = schema.get("items", True), schema.get("prefixItems")
    if isinstance(rest, list):  # how drafts before 2020-12 write `prefixItems`
        rest, first = schema.get("additionalItems", True), rest
    return (first if isinstance(first, list) else []), rest


def _implied(schema: Mapping[str, Json]) -> str:
    if not schema.keys().isdisjoint({"properties", "additionalProperties", "patternProperties"}):
        return "object"
    return "array" if not schema.keys().isdisjoint({"items", "prefixItems"}) else ""
