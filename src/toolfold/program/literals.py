"""Literals in a program's text against JSON schemas: wrong only when no reading makes them right."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from toolfold.models import Json

WORDS: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "a list",
    "object": "a dict",
    "null": "None",
}
"""JSON types as error texts name them."""
_ARRAYS: Final = (ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.SetComp)
_BOOLEANS: Final = frozenset({"true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0"})
_DEEPEST: Final = 8
_MOST_STEPS: Final = 2000
_FEW: Final = 8
_LONGEST: Final = 40
_WIDEST_NUMBER: Final = 10**20


class Mismatch(NamedTuple):
    """Where in an argument a literal is wrong, and what would be right."""

    path: str
    expected: str
    got: str
    node: ast.expr


def shape_of(node: ast.expr) -> str | None:
    """The JSON type that an expression certainly has; `None` if that is not certain."""
    if isinstance(node, ast.Constant):
        return _shape_of_value(node.value)
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub | ast.UAdd)
        and isinstance(node.operand, ast.Constant)
    ):
        shape = _shape_of_value(node.operand.value)
        return shape if shape in {"integer", "number"} else None
    if isinstance(node, _ARRAYS):
        return "array"
    if isinstance(node, ast.Dict | ast.DictComp):
        return "object"
    return "string" if isinstance(node, ast.JoinedStr) else None


def mismatch(node: ast.expr, schema: Json, root: Mapping[str, Json], *, is_lenient: bool = False) -> Mismatch | None:
    """The first literal in `node` that the schema cannot accept, or that a lenient reader of it cannot."""
    return _Judge(root, is_lenient).mismatch(node, schema, "", 0)


def accepts(schema: Json, shape: str, root: Mapping[str, Json]) -> bool:
    """Whether some value of this JSON type may fit the schema."""
    return _Judge(root).fits(shape, schema, 0)


class _Judge:
    """Compares within a budget: schemas come from servers, and a recursive one has no end."""

    def __init__(self, root: Mapping[str, Json], is_lenient: bool = False) -> None:
        self._root = root
        self._is_lenient = is_lenient
        self._steps = _MOST_STEPS

    def mismatch(self, node: ast.expr, schema: Json, path: str, depth: int) -> Mismatch | None:
        schema = self._resolved(schema)
        shape = shape_of(node)
        if shape is None or not isinstance(schema, Mapping) or self._is_spent(depth):
            return None
        if not self.fits(shape, schema, depth, node):
            return Mismatch(path, self._expected(schema, depth), _shown(node), node)
        for step, inner, inner_schema in _parts(node, schema):
            wrong = self.mismatch(inner, inner_schema, path + step, depth + 1)
            if wrong is not None:
                return wrong
        return None

    def fits(self, shape: str, schema: Json, depth: int, node: ast.expr | None = None) -> bool:
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping) or self._is_spent(depth):
            return True
        if shape == "null" and (schema.get("nullable") is True or schema.get("default", "") is None):
            return True
        if self._is_lenient and node is not None and _converts(node, schema.get("type")):
            return True
        if not _type_fits(shape, schema.get("type")) or not _is_listed(shape, schema, node):
            return False
        for word in ("anyOf", "oneOf"):
            choices = schema.get(word) or [True]
            if isinstance(choices, list) and not any(self.fits(shape, one, depth + 1, node) for one in choices):
                return False
        every = schema.get("allOf")
        return not isinstance(every, list) or all(self.fits(shape, one, depth + 1, node) for one in every)

    def _is_spent(self, depth: int) -> bool:
        self._steps -= 1
        return self._steps < 0 or depth > _DEEPEST

    def _resolved(self, schema: Json) -> Json:
        for _ in range(_DEEPEST):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                return schema
            schema = self._referred(schema["$ref"])
        return True

    def _referred(self, reference: Json) -> Json:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return True
        found: Json = self._root
        for escaped in reference[2:].split("/"):
            part = escaped.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or part not in found:
                return True
            found = found[part]
        return found

    def _expected(self, schema: Json, depth: int) -> str:
        return " or ".join(dict.fromkeys(self._choices(schema, depth))) or "something else"

    def _choices(self, schema: Json, depth: int) -> Iterator[str]:
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping) or self._is_spent(depth):
            return
        if "const" in schema:
            yield _repr(schema["const"])
        elif isinstance(schema.get("enum"), list):
            shown = [_repr(value) for value in schema["enum"][:_FEW]] + ["..."] * (len(schema["enum"]) > _FEW)
            yield f"one of {', '.join(shown)}"
        elif "type" in schema:
            kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            yield from (WORDS[kind] for kind in kinds if isinstance(kind, str) and kind in WORDS)
        for word in ("anyOf", "oneOf", "allOf"):
            choices = schema.get(word)
            if isinstance(choices, list):
                for choice in choices[:_FEW]:
                    yield from self._choices(choice, depth + 1)


def _parts(node: ast.expr, schema: Mapping[str, Json]) -> Iterator[tuple[str, ast.expr, Json]]:
    """Elements of a literal list or dict, with their step in the path and their schema."""
    if isinstance(node, ast.List | ast.Tuple) and "prefixItems" not in schema and "items" in schema:
        for index, element in enumerate(node.elts):
            if isinstance(element, ast.Starred):
                return
            yield f"[{index}]", element, schema["items"]
    properties = schema.get("properties")
    if isinstance(node, ast.Dict) and isinstance(properties, Mapping):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value in properties:
                yield f".{key.value[:_LONGEST]}", value, properties[key.value]


def _shape_of_value(value: object) -> str | None:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case None:
            return "null"
    return None


def _type_fits(shape: str, kinds: Json) -> bool:
    if isinstance(kinds, str):
        kinds = [kinds]
    if not isinstance(kinds, list) or not all(isinstance(kind, str) and kind in WORDS for kind in kinds):
        return True
    return shape in kinds or (shape == "integer" and "number" in kinds)


def _converts(node: ast.expr, kinds: Json) -> bool:
    """Whether pydantic makes of a constant what the schema wants, or may make it of an f-string."""
    if isinstance(node, ast.JoinedStr):
        return any(kind in ("boolean", "integer", "number") for kind in (kinds if isinstance(kinds, list) else [kinds]))
    if not isinstance(node, ast.Constant) or isinstance(node.value, bytes | complex):
        return False
    value = node.value
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind == "boolean" and (value in (0, 1) or str(value).lower() in _BOOLEANS):
            return True
        if kind in ("integer", "number") and isinstance(value, bool | str) and _is_number(value, kind):
            return True
    return False


def _is_number(value: bool | str, kind: str) -> bool:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return False
    return kind == "number" or number.is_integer()


def _is_listed(shape: str, schema: Mapping[str, Json], node: ast.expr | None) -> bool:
    """Whether `enum` and `const` leave room for the literal."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(listed, list):
        return True
    same_shape = [
        value for value in listed if _shape_of_json(value) in {shape, "number" if shape == "integer" else shape}
    ]
    if not isinstance(node, ast.Constant):
        return bool(same_shape)
    return node.value in same_shape


def _shape_of_json(value: Json) -> str | None:
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, list | tuple) else _shape_of_value(value)


def _shown(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return _repr(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return ("-" if isinstance(node.op, ast.USub) else "+") + _repr(node.operand.value)
    if isinstance(node, ast.JoinedStr):
        return "an f-string"
    return WORDS[shape_of(node) or "object"]


def _repr(value: object) -> str:
    """A short `repr`; Python refuses to print very long integers."""
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "...")
    if isinstance(value, int) and abs(value) > _WIDEST_NUMBER:
        return "a very long integer"
    return repr(value) if isinstance(value, int | float | None) else WORDS[_shape_of_json(value) or "object"]
