"""Arguments made from a schema: the smallest value that fits it, as far as that can be told."""

import contextlib
from typing import Any, TypeAlias

import jsonschema_rs

from toolfold.models import ToolSpec

FORMATS = {
    "date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "uri": "https://example.com/x",
    "email": "a@example.com", "uuid": "123e4567-e89b-12d3-a456-426614174000", "ipv4": "192.0.2.1",
}  # fmt: skip
GUESSES = [
    "abc",
    "0" * 40,
    f"sha256:{'a' * 64}",
    "a" * 64,
    "1",
    "1.2.3",
    "12:30",
    "#ffffff",
    "ffffff",
    "v1",
    "ssh-rsa AAAA",
    "refs/heads/main",
    "https://example.com/x",
]
DEEPEST = 6
OWN = ("with_response", "next_query")
"""Arguments that no document has."""

# Any: a schema of somebody else's document.
Schema: TypeAlias = dict[str, Any]


def arguments_of(spec: ToolSpec, *, optional: bool = False) -> dict[str, Any]:
    """Those that must be given, or all that the document has."""
    schema: Schema = dict(spec.input_schema)
    names = [name for name in spec.parameters if name not in OWN] if optional else spec.required
    return {name: sample(schema["properties"][name], schema) for name in names}


def sample(schema: Any, root: Schema, depth: int = 0) -> Any:
    if not isinstance(schema, dict):
        return "x"
    if "$ref" in schema:
        return sample(root["$defs"][schema["$ref"].rpartition("/")[2]], root, depth + 1)
    for word in ("const", "default"):
        if schema.get(word) is not None:
            return schema[word]
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("anyOf"):
        return sample(_first_choice(schema), root, depth + 1)
    if schema.get("allOf"):
        parts = [sample(part, root, depth + 1) for part in schema["allOf"]]
        return {key: item for part in parts for key, item in part.items()} if isinstance(parts[0], dict) else parts[0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _of_type(kind[0] if isinstance(kind, list) else kind, schema, root, depth)


def _first_choice(schema: Schema) -> Schema:
    first: Schema = schema["anyOf"][0]
    if "properties" not in schema:
        return first
    required = [*schema.get("required", []), *first.get("required", [])]
    return {**{key: one for key, one in schema.items() if key != "anyOf"}, "required": required}


def _of_type(kind: str, schema: Schema, root: Schema, depth: int) -> Any:
    match kind:
        case "object":
            return _object(schema, root, depth)
        case "array":
            count = max(1, schema.get("minItems", 1)) if depth < DEEPEST else 0
            return [sample(schema.get("items", {}), root, depth + 1) for _ in range(count)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case "null":
            return None
    if schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    if "pattern" in schema:
        # Not with `re`: a public document has a pattern that it would try for hours.
        with contextlib.suppress(ValueError):  # and public documents have some that are none
            fits = jsonschema_rs.validator_for({"pattern": schema["pattern"]}).is_valid
            return next(filter(fits, GUESSES), "x")
    return "x" * max(1, schema.get("minLength", 1))


def _object(schema: Schema, root: Schema, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    names = list(schema.get("required", []))
    names += [name for name in properties if name not in names][: max(0, schema.get("minProperties", 0) - len(names))]
    return {name: sample(properties.get(name, {}), root, depth + 1) for name in names}
