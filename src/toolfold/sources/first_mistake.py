"""The check of a pydantic type that stops at the first mistake in a list, set, tuple or dict.

Pydantic collects them all: 8,000 wrong items against a union of two lists are 16,000 errors, and all that time nobody
else is served. What it accepts, and as what, stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

_COLLECTIONS: Final = frozenset({
    "list", "set", "frozenset", "tuple", "deque", "dict", "frozendict", "ordered-dict", "counter",
})  # fmt: skip
_INNER: Final = frozenset({
    "schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema", "lax_schema",
    "strict_schema", "json_schema", "python_schema", "var_args_schema", "var_kwargs_schema", "arguments_schema",
    "choices", "steps", "definitions", "fields",
})  # fmt: skip
"""The keys of a core schema that hold schemas. Never defaults or metadata, whose values are somebody else's."""
_OPAQUE: Final = "function-wrap"
"""Its function sees the errors, and may drop the wrong items that they name."""


# Any: an adapter of whatever annotation, and what it makes of the arguments.
def stopping_check(adapter: TypeAdapter[Any]) -> Callable[[Any], Any]:
    """As `adapter.validator.validate_python`, with fewer errors in its `ValidationError`."""
    found: list[str] = []
    schema = _stopping(adapter.core_schema, found)
    if not found:
        return adapter.validator.validate_python
    try:
        # Prebuilt validators of models would be taken as they are, without what was changed here.
        validator = SchemaValidator(schema, _use_prebuilt=False)
    except TypeError:  # older versions of pydantic-core do not have the option
        validator = SchemaValidator(schema)
    return validator.validate_python


# Any: core schemas are dicts whose keys depend on their type; what is not one is given back.
def _stopping(schema: Any, found: list[str]) -> Any:
    if not isinstance(schema, dict) or schema.get("type") == _OPAQUE:
        return schema
    copy = {key: _inner(value, found) if key in _INNER else value for key, value in schema.items()}
    if copy.get("type") in _COLLECTIONS:
        found.append(copy["type"])
        copy["fail_fast"] = True
    return copy


def _inner(value: Any, found: list[str]) -> Any:
    if isinstance(value, list):
        return [_inner(one, found) for one in value]
    if isinstance(value, tuple):  # a choice of a union, and its label
        return tuple(_stopping(one, found) for one in value)
    if isinstance(value, dict) and not isinstance(value.get("type"), str):  # fields, or choices by their tag
        return {key: _stopping(one, found) for key, one in value.items()}
    return _stopping(value, found)
