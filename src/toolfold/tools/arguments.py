"""Argument checks against JSON Schema, the one-line errors they raise, and size limits on foreign schemas."""

from __future__ import annotations

import difflib
import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from toolfold.errors import ToolArgumentsInvalid
from toolfold.models import Json, ToolSpec, Value
from toolfold.prompts.schema_types import target_of
from toolfold.prompts.wording import respell
from toolfold.tools.sendable_values import json_size, show_path

ArgumentCheck: TypeAlias = Callable[[Mapping[str, Value]], Mapping[str, Value]]
_log: Final = logging.getLogger(__name__)

_TYPES: Final = {
    "string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "an object", "null": "null",
}  # fmt: skip
TOO_LARGE_TO_EXPLAIN: Final = "they do not fit its schema, and are too large to say where"
_SHOWN_CHARACTERS: Final = 80
_LARGE_BYTES: Final = 1024 * 1024
"""Not searched for the place of a mistake."""
SAMPLE_PARTS: Final = 200
"""Parts of a value to explain: with several possible schemas, each part is an error in each of them."""
_SAMPLE_CHARACTERS: Final = 1000


def argument_check(spec: ToolSpec) -> ArgumentCheck:
    """A function that gives fitting arguments back and raises `ToolArgumentsInvalid` for others.

    A schema that is broken, or points to one elsewhere, checks nothing: the tool's own side still does.
    """
    try:
        # Offline: a schema may come from a stranger, and a `$ref` must not make this host fetch it.
        validator = jsonschema_rs.validator_for(dict(spec.input_schema), validate_formats=False, offline=True)
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        _log.warning("arguments of %r are not checked, because its schema is invalid: %s", spec.name, reason)
        return lambda arguments: arguments

    def check(arguments: Mapping[str, Value]) -> Mapping[str, Value]:
        if type(arguments) is not dict:
            arguments = dict(arguments)
        json = arguments
        try:
            valid = validator.is_valid(arguments)
        except ValueError:
            # Bytes and media have no JSON form of their own: to a schema they are base64 text.
            json = msgspec.to_builtins(arguments)
            valid = validator.is_valid(json)
        if valid:
            return arguments
        without_nulls = _without_null_defaults(spec, arguments)
        if len(without_nulls) < len(arguments):
            json = msgspec.to_builtins(without_nulls)
            if validator.is_valid(json):
                return without_nulls
        raise _explanation(spec, json, validator)

    return check


def _without_null_defaults(spec: ToolSpec, arguments: Mapping[str, Value]) -> dict[str, Value]:
    """Without each `None` whose parameter has it as its default, though its type leaves no room for it."""
    properties = spec.input_schema.get("properties", {})
    nulls = {
        name for name, schema in properties.items() if isinstance(schema, Mapping) and schema.get("default", "") is None
    }
    return {name: value for name, value in arguments.items() if value is not None or name not in nulls}


def _explanation(spec: ToolSpec, arguments: Mapping[str, Value], validator: jsonschema_rs.Validator) -> Exception:
    """The error for arguments that do not fit, found in a part that is small enough to list."""
    errors = list(validator.iter_errors(sample(arguments)))
    offsets: dict[str, int] = {}
    if not errors and json_size(arguments) < _LARGE_BYTES:
        arguments, offsets = _narrow_arguments(arguments, validator.is_valid)
        errors = list(validator.iter_errors(sample(arguments)))
    if not errors:
        return bad_argument(spec.name, TOO_LARGE_TO_EXPLAIN)
    return bad_argument(spec.name, _explain(errors[0], spec.parameters, offsets), len(errors) - 1)


def _narrow_arguments(
    arguments: Mapping[str, Value], fits: Callable[[Any], bool]
) -> tuple[Mapping[str, Value], dict[str, int]]:
    """The arguments with only the first wrong item of a long list, and the place where that was."""
    lists = (key for key, items in arguments.items() if isinstance(items, list) and fits({**arguments, key: []}))
    key = next(lists, None)
    if key is None:
        return arguments, {}
    items = arguments[key]
    at = bisect_left(range(len(items) - 1), True, key=lambda at: not fits({**arguments, key: items[: at + 1]}))
    return {**arguments, key: items[at : at + 1]}, {key: at}


def sample(value: Value) -> Value:
    """The first parts of a value: listing a million mistakes would stop the host for seconds."""
    return _sample(value, [SAMPLE_PARTS])


def _sample(value: Value, remaining: list[int]) -> Value:
    remaining[0] -= 1
    match value:
        case list():
            return [_sample(item, remaining) for item in takewhile(lambda _: remaining[0] > 0, value)]
        case dict():
            return {key: _sample(item, remaining) for key, item in takewhile(lambda _: remaining[0] > 0, value.items())}
        case str() | bytes():
            return value[:_SAMPLE_CHARACTERS]
    return value


def bad_argument(tool: str, text: str, other_errors: int = 0) -> ToolArgumentsInvalid:
    more = f" (and {other_errors} more)" if other_errors > 0 else ""
    return ToolArgumentsInvalid(f"{tool!r} got a bad argument: {text}{more}")


def wrong(path: Sequence[str | int], must: str, value: object) -> str:
    """`ticker must be a string, got 3`."""
    return f"{_place(path)} {must}, got {show_value(value)}"


def missing(path: Sequence[str | int]) -> str:
    """`ticker is missing`."""
    return f"{_place(path)} is missing"


def unknown(path: Sequence[str | int], parameters: Collection[str]) -> str:
    """`no parameter 'tiker'; did you mean 'ticker'?`."""
    *outer, name = path
    if outer:
        return f"{_place(outer)} has no key {name!r}"
    keywords = [*map(respell, parameters)]
    close = difflib.get_close_matches(respell(str(name)), keywords, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(keywords) or 'none'}"
    return f"no parameter {name!r}; {hint}"


def show_value(value: object) -> str:
    """A value in an error text: its `repr`, on one line and not too long."""
    text = repr(value[:_SHOWN_CHARACTERS] if isinstance(value, (str, bytes)) else sample(value))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _explain(error: jsonschema_rs.ValidationError, parameters: Collection[str], offsets: Mapping[str, int]) -> str:
    path = _whole_path(error.instance_path, offsets)
    # Any: the stub types the kind as a union of classes that share no attribute but the name.
    kind: Any = error.kind
    match kind.name:
        case "type":
            return wrong(path, _must_be(kind.types), error.instance)
        case "required":
            return missing([*path, kind.property])
        case "additionalProperties" | "unevaluatedProperties":
            return unknown([*path, kind.unexpected[0]], parameters)
        case "enum":
            return wrong(path, f"must be one of {', '.join(map(show_value, kind.options))}", error.instance)
        case "const":
            return wrong(path, f"must be {show_value(kind.expected_value)}", error.instance)
        case "anyOf" | "oneOf" if getattr(kind, "context", ()):
            return _explain_choice(error, parameters, offsets)
    return f"{_place(path)}: {error.message.partition(chr(10))[0]}"


def _whole_path(path: Sequence[str | int], offsets: Mapping[str, int]) -> list[str | int]:
    """The path in the whole arguments to what is here the item of a list with one."""
    whole = list(path)
    match whole:
        case [str(key), int(index), *_]:
            whole[1] = index + offsets.get(key, 0)
    return whole


def _explain_choice(
    error: jsonschema_rs.ValidationError, parameters: Collection[str], offsets: Mapping[str, int]
) -> str:
    """Explanation for a value that fits none of several schemas."""
    kind: Any = error.kind  # Any: as above
    inner = [branch_error for branch in kind.context for branch_error in branch]
    types = []
    for branch_error in inner:
        if branch_error.kind.name != "type" or branch_error.instance_path != error.instance_path:
            # This schema takes a value of this type, so it says best what is wrong with it.
            return _explain(branch_error, parameters, offsets)
        types += branch_error.kind.types
    return wrong(_whole_path(error.instance_path, offsets), _must_be(types), error.instance)


def _must_be(types: Iterable[str]) -> str:
    return "must be " + " or ".join(words for name, words in _TYPES.items() if name in set(types))


def _place(path: Sequence[str | int]) -> str:
    """Where a value stands; an argument as programs write it, with its own name if that is another."""
    if not path or not isinstance(path[0], str) or respell(path[0]) == path[0]:
        return show_path(path) if path else "the arguments"
    return f"{show_path([respell(path[0]), *path[1:]])} ({path[0]!r})"


# ----------------------------------------------------------------------------------------------------
# Schemas from outside, bounded when they are taken in.
#
# A few kilobytes of `$ref`s that each name the next one twice stand for more alternatives than any host can look at, in
# a check of arguments or in a stub.

MAX_PARTS: Final = 20_000
"""With every `$ref` replaced by what it names."""
MAX_DEPTH: Final = 64
_MOST_FAILURES: Final = 20
"""Parameters that are too large, after which no others are weighed."""
_DEFINITIONS: Final = ("$defs", "definitions")

_LINES_A_MINUTE: Final = 100


class _LineRateFilter(logging.Filter):
    """A stranger may send such schemas as often as they like; the first ones of a minute tell what there is to know."""

    def __init__(self) -> None:
        super().__init__()
        self._minute, self._lines = 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(record.created // 60)
        self._lines = self._lines + 1 if minute == self._minute else 1
        self._minute = minute
        return self._lines <= _LINES_A_MINUTE


_log.addFilter(_LineRateFilter())


def bound_schema(schema: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """The schema, or one where parameters that stand for too much take anything."""
    if is_bounded(schema):
        return schema
    _log.warning("the schema of %r is used only in part: it is too large with its references resolved", name)
    properties, required = schema.get("properties"), schema.get("required")
    names = dict.fromkeys(islice(properties, MAX_PARTS)) if isinstance(properties, Mapping) else {}
    bounded = _within_bounds(schema, names)
    words = {word: schema[word] for word in _DEFINITIONS if word in schema} if bounded else {}
    return {
        "type": "object",
        "properties": {name: bounded.get(name, {}) for name in names},
        "required": [name for name in required if name in names] if isinstance(required, list) else [],
        **_with_definitions(words, bounded),
    }


def _within_bounds(schema: Mapping[str, Json], names: Iterable[str]) -> dict[str, Json]:
    """The first properties that stay within `MAX_PARTS` together."""
    bounded: dict[str, Json] = {}
    remaining_parts, failures = MAX_PARTS, 0
    for name in names:
        try:
            # Anew for each: what was begun and not finished has no weight.
            weight = _SchemaWeigher(schema).weigh(schema["properties"][name], 1)
        except _SchemaTooLarge:
            weight = MAX_PARTS + 1
        if weight <= remaining_parts:
            bounded[name] = schema["properties"][name]
            remaining_parts -= weight
            continue
        failures += 1
        if failures == _MOST_FAILURES:
            break
    return bounded


# Any: whatever a stranger put into a schema.
def _with_definitions(words: Mapping[str, Any], properties: Mapping[str, Json]) -> dict[str, Json]:
    """Definitions that the kept properties refer to; the others may be the ones without an end."""
    used_names: dict[str, set[str]] = {word: set() for word in words}
    parts: list[Any] = list(properties.values())
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            word, name = _definition(part.get("$ref"))
            if isinstance(words.get(word), Mapping) and name in words[word] and name not in used_names[word]:
                used_names[word].add(name)
                parts.append(words[word][name])
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
    return {word: {name: words[word][name] for name in sorted(names)} for word, names in used_names.items() if names}


def _definition(reference: object) -> tuple[str, str]:
    """The word and the name in `#/$defs/name`."""
    if not isinstance(reference, str):
        return "", ""
    _, word, name, *_ = (*unquote(reference).split("/", 3), "", "", "")
    return word, name.replace("~1", "/").replace("~0", "~")


def is_bounded(schema: Mapping[str, Json]) -> bool:
    """Whether it stays within `MAX_PARTS` and `MAX_DEPTH` with its references followed."""
    try:
        _SchemaWeigher(schema).weigh(schema, 0)
    except _SchemaTooLarge:
        return False
    return True


class _SchemaTooLarge(Exception):
    pass


class _SchemaWeigher:
    """Counts each part once for every way that leads to it, without going any of them twice."""

    def __init__(self, root: Mapping[str, Json]) -> None:
        self._root = root
        self._weights: dict[str, int] = {}

    # Any: whatever a stranger put into a schema.
    def weigh(self, part: Any, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise _SchemaTooLarge
        weight = 1
        if isinstance(part, Mapping):
            reference = part.get("$ref")
            if isinstance(reference, str):
                weight += self._reference_weight(reference, depth)
            weight += sum(self.weigh(inner, depth + 1) for inner in part.values())
        elif isinstance(part, list):
            weight += sum(self.weigh(inner, depth + 1) for inner in part)
        if weight > MAX_PARTS:
            raise _SchemaTooLarge
        return weight

    def _reference_weight(self, reference: str, depth: int) -> int:
        if reference not in self._weights:
            self._weights[reference] = 0  # a way back to where it began adds nothing
            target = None if reference == "#" else target_of(reference, self._root)  # the whole is weighed anyway
            self._weights[reference] = self.weigh(target, depth + 1)
        return self._weights[reference]
