"""Keys and attributes of replies, where the tool's output schema says that there are none such."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from toolfold.models import Json, ToolSpec
from toolfold.program.arguments import Fault
from toolfold.program.certain_types import in_python
from toolfold.program.reader import Reader
from toolfold.program.reading.facts import Use
from toolfold.program.scopes import Kind, Scope

_DEEPEST: Final = 8
_FEW: Final = 8
_ELSEWHERE: Final = frozenset({*dir(dict), *dir(str), *dir(list), "data", "kind", "mime", "name", "uri"})
"""Attributes that some reply may have, even one that is not what its schema says: pictures and files have the last."""


class _Shape(NamedTuple):
    """What is known of a value: its schema, and the tool that it came from."""

    schema: Mapping[str, Json]
    tool: ToolSpec


def reply_faults(reader: Reader, tools: Mapping[ast.AST, ToolSpec], runs: Callable[[Use], bool]) -> Iterator[Fault]:
    """Faults in no order; `tools` are those that calls certainly go to, `runs` tells which code is run."""
    if not any(tool.output_schema for tool in tools.values()):
        return
    for use in reader.values.keys:
        shape = _shape(use.node.value, use.scope, tools, 0)
        key = use.node.slice.value
        if shape is not None and _lacks(shape.schema, key) and runs(use):
            yield Fault("reply", _no_key(shape, key), use.node.slice)
    for use in reader.names.attribute_uses:
        shape = _shape(use.node.value, use.scope, tools, 0)
        if shape is not None and use.node.attr not in _ELSEWHERE and runs(use):
            wanted = _no_attribute(use.node, shape)
            if wanted:
                yield Fault("reply", wanted, use.node)


def _no_attribute(node: ast.Attribute, shape: _Shape) -> str:
    name = ast.unparse(node.value)
    match shape.schema.get("type"):
        case "object":
            kind, rest = "a dict", f"write {name}[{node.attr!r}]"
        case "array":
            kind, rest = "a list", f"write {in_python(node.attr, name) or f'[item.{node.attr} for item in {name}]'}"
        case _:
            return ""
    return f"{name!r} is {kind} from {shape.tool.python_name!r}, which has no attribute {node.attr!r}; {rest}"


def _lacks(schema: Mapping[str, Json], key: str) -> bool:
    properties = schema.get("properties")
    return (
        schema.get("type") == "object"
        and schema.get("additionalProperties") is False
        and "patternProperties" not in schema
        and isinstance(properties, Mapping)
        and key not in properties
    )


def _no_key(shape: _Shape, key: str) -> str:
    keys = list(shape.schema["properties"])
    near = difflib.get_close_matches(key, keys[:200], 1)
    rest = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, keys[:_FEW])) or 'none'}"
    return f"the reply of {shape.tool.python_name!r} has no key {key!r}; {rest}"


def _shape(value: ast.expr, scope: Scope, tools: Mapping[ast.AST, ToolSpec], depth: int) -> _Shape | None:
    """What a value certainly is, followed through names that are bound once, loops, items and keys."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Call):
        return _shape_of_call(value, scope, tools, depth)
    if isinstance(value, ast.ListComp):
        return _listed(_shape(value.elt, scope, tools, depth + 1))
    if isinstance(value, ast.Name):
        return _shape_of_name(value.id, scope, tools, depth + 1)
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        whole = _shape(value.value, scope, tools, depth + 1)
        return None if whole is None else _at(whole, value.slice.value)
    return None


def _shape_of_call(call: ast.Call, scope: Scope, tools: Mapping[ast.AST, ToolSpec], depth: int) -> _Shape | None:
    tool = tools.get(call)
    if tool is not None:
        return _part(tool.output_schema, tool)
    match call:
        case ast.Call(func=ast.Attribute(attr="gather"), args=[ast.Starred(value=ast.ListComp(elt=one))], keywords=[]):
            return _listed(_shape(one, scope, tools, depth + 1))
    return None


def _listed(one: _Shape | None) -> _Shape | None:
    return None if one is None else _Shape({"type": "array", "items": one.schema}, one.tool)


def _shape_of_name(name: str, scope: Scope, tools: Mapping[ast.AST, ToolSpec], depth: int) -> _Shape | None:
    owner = scope.find(name)
    if owner is None or owner.kind is Kind.CLASS or name in owner.rebound:
        return None
    assigned = owner.values.get(name)
    if assigned is not None:
        return _shape(assigned, owner, tools, depth)
    source = owner.loops.get(name)
    if source is None:
        return None
    whole = _shape(source, owner, tools, depth)
    return None if whole is None else _at(whole, 0)


def _at(whole: _Shape, key: object) -> _Shape | None:
    if isinstance(key, str):
        properties = whole.schema.get("properties")
        return _part(properties.get(key), whole.tool) if isinstance(properties, Mapping) else None
    is_list = whole.schema.get("type") == "array" and "prefixItems" not in whole.schema
    return _part(whole.schema.get("items"), whole.tool) if is_list else None


def _part(schema: Json, tool: ToolSpec) -> _Shape | None:
    """A schema that says one thing for certain; one that refers to another, or leaves a choice, does not."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping) or set(schema) & {"anyOf", "oneOf", "allOf", "not", "if"}:
            return None
        if "$ref" not in schema:
            return _Shape(schema, tool)
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        schema = (tool.output_schema or {}).get("$defs", {}).get(name)
    return None
