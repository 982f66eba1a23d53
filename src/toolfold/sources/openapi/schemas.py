"""Schemas of OpenAPI as JSON Schema: references as `$defs`, the words of OpenAPI 3.0 in today's terms.

A schema comes from a stranger: a word of the wrong type is left out, a reference that leads nowhere allows anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from toolfold.models import Json

Look: TypeAlias = Callable[[str], Json | None]
"""What a reference leads to; `None` for nothing."""
Side: TypeAlias = Literal["input", "output"]

_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_ONE: Final = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
_PLAIN: Final[Mapping[str, type | tuple[type, ...]]] = {
    "title": str, "description": str, "format": str, "pattern": str, "enum": list, "required": list,
    "minLength": int, "maxLength": int, "minItems": int, "maxItems": int, "minProperties": int, "maxProperties": int,
    "minimum": (int, float), "maximum": (int, float), "exclusiveMinimum": (int, float),
    "exclusiveMaximum": (int, float), "multipleOf": (int, float), "uniqueItems": bool,
    "contentMediaType": str, "contentEncoding": str,
}  # fmt: skip
_NOT_FOR: Final[Mapping[Side, str]] = {"input": "readOnly", "output": "writeOnly"}


def closed(schema: Json, look: Look, side: Side) -> dict[str, Json]:
    """The schema with all that it refers to under `$defs`."""
    convert = Conversion(look, side)
    whole = convert.schema(schema)
    definitions = convert.definitions()
    whole = whole if isinstance(whole, dict) else {}
    return {**whole, "$defs": definitions} if definitions else whole


class Conversion:
    """One schema, or several that share their definitions."""

    def __init__(self, look: Look, side: Side) -> None:
        self._look = look
        self._side: Side = side
        self._names: dict[str, str] = {}
        """Of the definitions, by reference."""
        self._waiting: list[str] = []

    def definitions(self) -> dict[str, Json]:
        """All that was referred to so far, and what that refers to."""
        made: dict[str, Json] = {}
        while self._waiting:
            reference = self._waiting.pop()
            made[self._names[reference]] = self.schema(self._look(reference))
        return dict(sorted(made.items()))

    def schema(self, given: Json) -> Json:
        if isinstance(given, bool):
            return given
        if not isinstance(given, Mapping):
            return {}
        reference = given.get("$ref")
        if isinstance(reference, str):
            return self._referred(reference, given)
        made = dict(self._words(given))
        return _nullable(made) if given.get("nullable") is True else made

    def _referred(self, reference: str, given: Mapping[str, Json]) -> dict[str, Json]:
        if self._look(reference) is None:
            return {}
        if reference not in self._names:
            self._names[reference] = _definition_name(reference, set(self._names.values()))
            self._waiting.append(reference)
        made: dict[str, Json] = {"$ref": f"#/$defs/{self._names[reference]}"}
        if isinstance(given.get("description"), str):
            made["description"] = given["description"]
        return _nullable(made) if given.get("nullable") is True else made

    def _words(self, given: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
        kind = _type(given.get("type"))
        if kind is not None:
            yield "type", kind
        for word, form in _PLAIN.items():
            value = given.get(word)
            if word in given and isinstance(value, form) and (form is bool or not isinstance(value, bool)):
                yield word, value
        yield from _exclusive(given)
        yield from ((word, given[word]) for word in ("default", "const") if word in given)
        yield from ((word, self.schema(given[word])) for word in _ONE if isinstance(given.get(word), Mapping | bool))
        for word in _MANY:
            if isinstance(given.get(word), list) and given[word]:
                # Branches of `oneOf` overlap in many documents; which one is meant is for the API to say.
                yield "anyOf" if word == "oneOf" and "anyOf" not in given else word, [*map(self.schema, given[word])]
        for word in _NAMED:
            if isinstance(given.get(word), Mapping):
                yield word, {str(name): self.schema(one) for name, one in self._shown(given[word])}
        if isinstance(given.get("required"), list):
            properties = given.get("properties")
            hidden = self._hidden(properties) if isinstance(properties, Mapping) else frozenset()
            yield "required", [name for name in given["required"] if isinstance(name, str) and name not in hidden]

    def _shown(self, properties: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
        hidden = self._hidden(properties)
        return ((name, one) for name, one in properties.items() if name not in hidden)

    def _hidden(self, properties: Mapping[str, Json]) -> frozenset[str]:
        """Properties that go only the other way."""
        word = _NOT_FOR[self._side]
        return frozenset(name for name, one in properties.items() if isinstance(one, Mapping) and one.get(word) is True)


def _type(kind: Json) -> Json:
    if isinstance(kind, str):
        return kind if kind in _TYPES else None
    if isinstance(kind, list):
        return [one for one in kind if isinstance(one, str) and one in _TYPES] or None
    return None


def _exclusive(given: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """OpenAPI 3.0 has the limit in one word, and in the other whether it is excluded."""
    for word, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if given.get(word) is True and isinstance(given.get(limit), int | float):
            yield word, given[limit]


def _nullable(made: dict[str, Json]) -> dict[str, Json]:
    kind = made.get("type")
    if kind is None and set(made) & {"$ref", "allOf", "anyOf", "enum"}:
        return {"anyOf": [made, {"type": "null"}]}
    if kind is None:
        return made
    kinds = kind if isinstance(kind, list) else [kind]
    made = {**made, "type": [*kinds, *([] if "null" in kinds else ["null"])]}
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


def _definition_name(reference: str, taken: set[str]) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", reference.rpartition("/")[2]) or "schema"
    while name in taken:
        name += "_"
    return name
