"""A schema that doubles with each of its levels: small as text, without an end once it is written out."""

from typing import Any


def doubling(levels: int) -> dict[str, Any]:
    """Of an object with one property."""
    definitions: dict[str, Any] = {"level0": {"type": "integer"}}
    for level in range(1, levels):
        reference = {"$ref": f"#/$defs/level{level - 1}"}
        definitions[f"level{level}"] = {"anyOf": [{"type": "array", "items": reference}, reference]}
    return {"type": "object", "properties": {"x": {"$ref": f"#/$defs/level{levels - 1}"}}, "$defs": definitions}
