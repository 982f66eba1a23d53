"""Arguments against a JSON Schema, and the one line that says what is wrong with them."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import msgspec

from toolfold.errors import ToolArgumentsInvalid
from toolfold.models import ToolSpec, Value
from toolfold.tools.shape import json_size, show_path

_log: Final = logging.getLogger(__name__)

_TYPES: Final = {
    "string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "an object", "null": "null",
}  # fmt: skip
TOO_LARGE_TO_EXPLAIN: Final = "they do not fit its schema, and are too large to say where"
_SHOWN_CHARACTERS: Final = 80
_LARGE_BYTES: Final = 64 * 1024
_SAMPLE_ITEMS: Final = 20
_SAMPLE_KEYS: Final = 1000


def argument_check(spec: ToolSpec) -> Callable[[Mapping[str, Value]], Mapping[str, Value]]:
    """A function that gives fitting arguments back and raises `ToolArgumentsInvalid` for others.

    A schema that is broken, or points to one elsewhere, checks nothing: the tool's own side still does.
    """
    try:
        # Offline: a schema may come from a stranger, and a `$ref` must not make this host fetch it.
        validator = jsonschema_rs.validator_for(dict(spec.input_schema), validate_formats=False, offline=True)
    except ValueError as error:
        _log.warning("arguments of %r go unchecked, its schema is broken: %s", spec.name, str(error).partition("\n")[0])
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
        errors = list(validator.iter_errors(json if json_size(json) < _LARGE_BYTES else sample(json)))
        text = _explain(errors[0], spec.parameters) if errors else TOO_LARGE_TO_EXPLAIN
        raise bad_argument(spec.name, text, len(errors) - 1)

    return check


def sample(value: Value) -> Value:
    """The first items of each list: listing a million mistakes would stop the host for seconds."""
    match value:
        case list():
            return [sample(item) for item in value[:_SAMPLE_ITEMS]]
        case dict():
            return {key: sample(item) for key, item in islice(value.items(), _SAMPLE_KEYS)}
    return value


def bad_argument(tool: str, text: str, others: int = 0) -> ToolArgumentsInvalid:
    """The error for arguments that do not fit, as programs read it."""
    more = f" (and {others} more)" if others > 0 else ""
    return ToolArgumentsInvalid(f"{tool!r} got a bad argument: {text}{more}")


def wrong(path: Sequence[str | int], must: str, got: object) -> str:
    """`ticker must be a string, got 3`."""
    return f"{_place(path)} {must}, got {shown(got)}"


def missing(path: Sequence[str | int]) -> str:
    """`ticker is missing`."""
    return f"{show_path(path)} is missing"


def unknown(path: Sequence[str | int], known: Collection[str]) -> str:
    """`no parameter 'tiker'; did you mean 'ticker'?`."""
    *outer, name = path
    if outer:
        return f"{show_path(outer)} has no key {name!r}"
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known) or 'none'}"
    return f"no parameter {name!r}; {hint}"


def shown(value: object) -> str:
    """A value in an error text: its `repr`, on one line and not too long."""
    text = repr(value[:_SHOWN_CHARACTERS] if isinstance(value, (str, bytes)) else sample(value))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _explain(error: jsonschema_rs.ValidationError, known: Collection[str]) -> str:
    path = list(error.instance_path)
    # Any: the stub types the kind as a union of classes that share no attribute but the name.
    kind: Any = error.kind
    match kind.name:
        case "type":
            return wrong(path, _must_be(kind.types), error.instance)
        case "required":
            return missing([*path, kind.property])
        case "additionalProperties" | "unevaluatedProperties":
            return unknown([*path, kind.unexpected[0]], known)
        case "enum":
            return wrong(path, f"must be one of {', '.join(map(shown, kind.options))}", error.instance)
        case "const":
            return wrong(path, f"must be {shown(kind.expected_value)}", error.instance)
        case "anyOf" | "oneOf" if getattr(kind, "context", ()):
            return _explain_choice(error, known)
    return f"{_place(path)}: {error.message.partition(chr(10))[0]}"


def _explain_choice(error: jsonschema_rs.ValidationError, known: Collection[str]) -> str:
    """What is wrong where a value fits none of several schemas."""
    kind: Any = error.kind  # Any: as above
    inner = [one for branch in kind.context for one in branch]
    types = []
    for one in inner:
        if one.kind.name != "type" or one.instance_path != error.instance_path:
            # This schema takes a value of this type, so it says best what is wrong with it.
            return _explain(one, known)
        types += one.kind.types
    return wrong(list(error.instance_path), _must_be(types), error.instance)


def _must_be(types: Iterable[str]) -> str:
    return "must be " + " or ".join(words for name, words in _TYPES.items() if name in set(types))


def _place(path: Sequence[str | int]) -> str:
    return show_path(path) if path else "the arguments"
