"""The right answers of the Berkeley function calling set as programs: one with `await`, one without."""

from __future__ import annotations

import builtins
import json
import keyword
import re
import zipfile
from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, UnknownType

from tests.corpora.case import Case
from tests.corpora.packages import wheel

_SETS: Final = (
    "simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple", "live_parallel",
    "live_parallel_multiple",
)  # fmt: skip
_OWN: Final = frozenset(dir(builtins)) | frozenset(keyword.kwlist)
"""Tools that are called so have another name in a program."""
_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "any": None, "bool": "boolean"}


def cases() -> Iterator[Case]:
    with wheel("bfcl-eval") as archive:
        for name in _SETS:
            rows = {row["id"]: row for row in _lines(archive, f"bfcl_eval/data/BFCL_v4_{name}.json")}
            for answer in _lines(archive, f"bfcl_eval/data/possible_answer/BFCL_v4_{name}.json"):
                yield from _programs(rows[answer["id"]], answer["ground_truth"])


def _programs(row: dict[str, Any], calls: list[dict[str, Any]]) -> Iterator[Case]:
    tools = {_name(function["name"]): _schema(function["parameters"]) for function in row["function"]}
    given = [(_name(name), _given(arguments)) for call in calls for name, arguments in call.items()]
    if not all(_is_sound(tools.get(name), arguments) for name, arguments in given) or not _OWN.isdisjoint(tools):
        return
    texts = [f"{name}({', '.join(f'{key}={value!r}' for key, value in one.items())})" for name, one in given]
    shapes = {
        "awaited": "".join(f"print(await {text})\n" for text in texts),
        "stored": "".join(f"r{n} = await {text}\nprint(r{n}['arguments'])\n" for n, text in enumerate(texts)),
        "plain": "".join(f"print({text})\n" for text in texts),
    }
    for shape, text in shapes.items():
        yield Case(corpus="BFCL", name=f"{row['id']} {shape}", text=text, tools=tools)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {key: _first(values) for key, values in arguments.items() if _first(values) != ""}


def _is_sound(schema: Any, arguments: dict[str, Any]) -> bool:
    """Whether an answer obeys the schema of its own question, which some do not, and can be written in Python."""
    if schema is None or any(not key.isidentifier() or keyword.iskeyword(key) for key in arguments):
        return False
    if not arguments.keys() <= schema.get("properties", {}).keys():
        return False
    try:
        return Draft202012Validator(schema).is_valid(arguments)
    except (SchemaError, UnknownType):
        return False


def _first(values: Any) -> Any:
    """The first answer of several; an object has several for each of its members."""
    chosen = values[0] if isinstance(values, list) and values else values
    return _members(chosen)


def _members(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _first(inner) for key, inner in value.items() if _first(inner) != ""}
    return [_members(item) for item in value] if isinstance(value, list) else value


def _name(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _schema(node: Any) -> Any:
    """The set's own type names as those of JSON Schema."""
    if isinstance(node, list):
        return [_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _schema(value) for key, value in node.items()}
    kind = node.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        plain["type"] = _TYPES[kind]
        if plain["type"] is None:
            del plain["type"]
    return plain


def _lines(archive: zipfile.ZipFile, path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in archive.read(path).splitlines()]
