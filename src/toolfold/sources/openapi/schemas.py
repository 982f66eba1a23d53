"""OpenAPI schemas as JSON Schema: references as `$defs`, keywords of OpenAPI 3.0 in today's terms.

A schema comes from a stranger: a word of the wrong type is left out, a reference that leads nowhere allows anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from toolfold.models import Json

ReferenceLookup: TypeAlias = Callable[[str], Json | None]
"""What a reference leads to; `None` for nothing."""
Side: TypeAlias = Literal["input", "output"]

_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_SCHEMA_KEYWORDS: Final = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_SCHEMA_LIST_KEYWORDS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA_MAP_KEYWORDS: Final = ("properties", "patternProperties", "dependentSchemas")
_PLAIN_KEYWORDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "title": str, "description": str, "format": str, "pattern": str, "enum": list, "required": list,
    "minLength": int, "maxLength": int, "minItems": int, "maxItems": int, "minProperties": int, "maxProperties": int,
    "minimum": (int, float), "maximum": (int, float), "exclusiveMinimum": (int, float),
    "exclusiveMaximum": (int, float), "multipleOf": (int, float), "uniqueItems": bool,
    "contentMediaType": str, "contentEncoding": str,
}  # fmt: skip
_NOT_FOR: Final[Mapping[Side, str]] = {"input": "readOnly", "output": "writeOnly"}


def with_definitions(schema: Json, lookup: ReferenceLookup, side: Side) -> dict[str, Json]:
    """The schema with all that it refers to under `$defs`."""
    conversion = Conversion(lookup, side)
    result = conversion.schema(schema)
    definitions = conversion.definitions()
    result = result if isinstance(result, dict) else {}
    return {**result, "$defs": definitions} if definitions else result


class Conversion:
    """One schema, or several that share their definitions."""

    def __init__(self, lookup: ReferenceLookup, side: Side) -> None:
        self._lookup = lookup
        self._side: Side = side
        self._names: dict[_Definition, str] = {}
        self._pending: list[_Definition] = []

    def definitions(self) -> dict[str, Json]:
        """All that was referred to so far, and what that refers to."""
        definitions: dict[str, Json] = {}
        while self._pending:
            key = self._pending.pop()
            target = self._lookup(key.reference)
            definition = self.schema(target)
            for name, constants in ((key.name, key.constants), self._inherited(key.reference, target)):
                definition = _narrow(definition, name, constants)
            definitions[self._names[key]] = definition
        return dict(sorted(definitions.items()))

    def schema(self, source: Json) -> Json:
        if isinstance(source, bool):
            return source
        if not isinstance(source, Mapping):
            return {}
        reference = source.get("$ref")
        if isinstance(reference, str):
            return self._reference(reference, source)
        result = dict(self._keywords(source))
        if self._side == "input" and _is_binary(source):
            result["format"] = "bytes"
        return _make_nullable(result) if source.get("nullable") is True else result

    def _reference(
        self, reference: str, source: Mapping[str, Json], name: str = "", constants: tuple[str, ...] = ()
    ) -> dict[str, Json]:
        if self._lookup(reference) is None:
            return {}
        key = _Definition(reference, name, constants)
        if key not in self._names:
            self._names[key] = _definition_name(reference, set(self._names.values()))
            self._pending.append(key)
        result: dict[str, Json] = {"$ref": f"#/$defs/{self._names[key]}"}
        if isinstance(source.get("description"), str):
            result["description"] = source["description"]
        return _make_nullable(result) if source.get("nullable") is True else result

    def _keywords(self, source: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
        kind = _type(source.get("type"))
        if kind is not None:
            yield "type", kind
        for keyword, expected_type in _PLAIN_KEYWORDS.items():
            value = source.get(keyword)
            if (
                keyword in source
                and isinstance(value, expected_type)
                and (expected_type is bool or not isinstance(value, bool))
            ):
                yield keyword, value
        yield from _exclusive_limits(source)
        yield from ((keyword, source[keyword]) for keyword in ("default", "const") if keyword in source)
        yield from (
            (keyword, self.schema(source[keyword]))
            for keyword in _SCHEMA_KEYWORDS
            if isinstance(source.get(keyword), Mapping | bool)
        )
        for keyword in _SCHEMA_LIST_KEYWORDS:
            if isinstance(source.get(keyword), list) and source[keyword]:
                # Branches of `oneOf` overlap in many documents; which one is meant is for the API to say.
                yield (
                    "anyOf" if keyword == "oneOf" and "anyOf" not in source else keyword,
                    [*self._branches(source[keyword], source.get("discriminator"))],
                )
        for keyword in _SCHEMA_MAP_KEYWORDS:
            if isinstance(source.get(keyword), Mapping):
                yield keyword, {str(name): self.schema(subschema) for name, subschema in self._visible(source[keyword])}
        if isinstance(source.get("required"), list):
            properties = source.get("properties")
            hidden_names = self._hidden_names(properties) if isinstance(properties, Mapping) else frozenset()
            yield (
                "required",
                [name for name in source["required"] if isinstance(name, str) and name not in hidden_names],
            )

    def _branches(self, branches: list[Json], discriminator: Json) -> Iterator[Json]:
        """Branches of a choice, each with the constants that its discriminator has for it."""
        name, mapping = _discriminator(discriminator)
        for branch in branches:
            reference = branch.get("$ref") if isinstance(branch, Mapping) else None
            if not name or not isinstance(reference, str):
                yield self.schema(branch)
                continue
            constants = tuple(value for value, target in mapping.items() if _is_target(target, reference))
            yield self._reference(reference, branch, name, constants)

    def _inherited(self, reference: str, target: Json) -> tuple[str, tuple[str, ...]]:
        """The constants of a schema that extends one with a discriminator; of that one itself, all of them."""
        source = target if isinstance(target, Mapping) else {}
        parents = source["allOf"] if isinstance(source.get("allOf"), list) else []
        pointers = [parent["$ref"] for parent in parents if isinstance(parent, Mapping) and "$ref" in parent]
        for parent in [target, *(self._lookup(pointer) for pointer in pointers if isinstance(pointer, str))]:
            name, mapping = _discriminator(parent.get("discriminator") if isinstance(parent, Mapping) else None)
            if name and not (isinstance(parent, Mapping) and {"oneOf", "anyOf"} & parent.keys()):
                values = (value for value, entry in mapping.items() if parent is target or _is_target(entry, reference))
                return name, tuple(values)
        return "", ()

    def _visible(self, properties: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
        hidden_names = self._hidden_names(properties)
        return ((name, subschema) for name, subschema in properties.items() if name not in hidden_names)

    def _hidden_names(self, properties: Mapping[str, Json]) -> frozenset[str]:
        """Properties that go only the other way."""
        keyword = _NOT_FOR[self._side]
        return frozenset(
            name
            for name, subschema in properties.items()
            if isinstance(subschema, Mapping) and subschema.get(keyword) is True
        )


class _Definition(NamedTuple):
    """A reference, and the constants of one of its properties."""

    reference: str
    name: str = ""
    constants: tuple[str, ...] = ()


def _discriminator(source: Json) -> tuple[str, Mapping[str, str]]:
    """Its property, and references by constant."""
    if not isinstance(source, Mapping) or not isinstance(source.get("propertyName"), str):
        return "", {}
    mapping = source.get("mapping")
    pairs = mapping.items() if isinstance(mapping, Mapping) else ()
    return source["propertyName"], {str(value): target for value, target in pairs if isinstance(target, str)}


def _is_target(target: str, reference: str) -> bool:
    """A mapping has references, or the bare names of schemas."""
    return reference == target or reference.rpartition("/")[2] == target


def _narrow(schema: Json, name: str, constants: tuple[str, ...]) -> Json:
    """The schema with a property of these constants, unless it has one of its own."""
    if not constants or not isinstance(schema, dict):
        return schema
    constant: dict[str, Json] = {"const": constants[0]} if len(constants) == 1 else {"enum": [*constants]}
    if isinstance(schema.get("allOf"), list):
        return {**schema, "allOf": [*schema["allOf"], {"properties": {name: constant}}]}
    properties = schema.get("properties")
    own = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(properties, dict) or not isinstance(own, dict) or "const" in own or len(own.get("enum", ())) == 1:
        return schema
    own = {key: value for key, value in own.items() if key in ("type", "description")}
    return {**schema, "properties": {**properties, name: {**own, **constant}}}


def _type(kind: Json) -> Json:
    if isinstance(kind, str):
        return kind if kind in _TYPES else None
    if isinstance(kind, list):
        return [name for name in kind if isinstance(name, str) and name in _TYPES] or None
    return None


def _is_binary(source: Mapping[str, Json]) -> bool:
    """A file: `format: binary`, or in OpenAPI 3.1 the media type of one that is not encoded."""
    mime = source.get("contentMediaType")
    is_file = isinstance(mime, str) and mime.partition("/")[0] in ("image", "audio", "video")
    is_raw = "contentEncoding" not in source and (is_file or mime == "application/octet-stream")
    return source.get("format") == "binary" or is_raw


def _exclusive_limits(source: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """OpenAPI 3.0 has the limit in one word, and in the other whether it is excluded."""
    for keyword, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if source.get(keyword) is True and isinstance(source.get(limit), int | float):
            yield keyword, source[limit]


def _make_nullable(schema: dict[str, Json]) -> dict[str, Json]:
    kind = schema.get("type")
    if kind is None and set(schema) & {"$ref", "allOf", "anyOf", "enum"}:
        return {"anyOf": [schema, {"type": "null"}]}
    if kind is None:
        return schema
    kinds = kind if isinstance(kind, list) else [kind]
    schema = {**schema, "type": [*kinds, *([] if "null" in kinds else ["null"])]}
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


def _definition_name(reference: str, used_names: set[str]) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", reference.rpartition("/")[2]) or "schema"
    while name in used_names:
        name += "_"
    return name
