"""Annotations of functions as JSON Schemas, both ways: what a program may send, and what it gets."""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing
from typing import Any, Final, NotRequired

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from typing_extensions import TypedDict, is_typeddict

BYTES: Final[dict[str, str]] = {"type": "string", "format": "bytes"}
"""Bytes that a program has as `bytes`; `binary` is what others write for base64 or a file."""
_NUMBER: Final = {"type": "number"}


class FunctionSchema(GenerateJsonSchema):
    """Without titles made from names; types are those that cross the wall, which pydantic's own JSON has otherwise."""

    # Any: pydantic's schemas are large unions of typed dicts that nothing here looks into.
    def field_title_should_be_set(self, _: Any) -> bool:
        return False

    def bytes_schema(self, schema: Any) -> JsonSchemaValue:
        return {**super().bytes_schema(schema), **BYTES}

    def decimal_schema(self, schema: Any) -> JsonSchemaValue:
        if self.mode == "serialization":  # exact text where a float would lose digits
            return {"anyOf": [dict(_NUMBER), {"type": "string"}]}
        return super().decimal_schema(schema)

    def timedelta_schema(self, schema: Any) -> JsonSchemaValue:
        if self.mode == "serialization":
            return {**_NUMBER, "description": "seconds"}
        text = {"type": "string", "format": "duration"}
        return {"anyOf": [dict(_NUMBER), text], "description": "seconds, or an ISO 8601 duration"}

    def emit_warning(self, kind: Any, detail: str) -> None:
        """A default that JSON cannot show is left out of the schema; nobody needs to hear of it."""


def portable(annotation: Any) -> Any:
    """The annotation with `typing.TypedDict`s, which pydantic refuses before Python 3.12, as ones that it takes."""
    return annotation if sys.version_info >= (3, 12) else _make_portable(annotation, {})


def _make_portable(annotation: Any, cache: dict[Any, Any]) -> Any:
    if is_typeddict(annotation):
        return _typed_dict(annotation, cache) if type(annotation).__module__ == "typing" else annotation
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is typing.Annotated:
        return typing.Annotated[(_make_portable(arguments[0], cache), *arguments[1:])]
    ported = tuple(
        _make_portable(argument, cache) if isinstance(argument, type) or typing.get_args(argument) else argument
        for argument in arguments
    )
    if ported == arguments:
        return annotation
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, ported)
    return annotation.copy_with(ported) if hasattr(annotation, "copy_with") else origin[ported]


def _typed_dict(annotation: Any, cache: dict[Any, Any]) -> Any:
    if annotation in cache:
        return cache[annotation]
    cache[annotation] = Any  # one that holds itself says no more of its inside
    hints = typing.get_type_hints(annotation, include_extras=True)
    fields = {name: _make_portable(_without_qualifier(hint), cache) for name, hint in hints.items()}
    optional = annotation.__optional_keys__
    # Any: mypy wants literal names here, and these are known at run time only.
    make_typed_dict: Any = TypedDict
    ported = make_typed_dict(
        annotation.__name__,
        {key: NotRequired[field_type] if key in optional else field_type for key, field_type in fields.items()},
    )
    ported.__doc__ = annotation.__doc__
    cache[annotation] = ported
    return ported


def _without_qualifier(hint: Any) -> Any:
    """Without `Required` and `NotRequired`: `__optional_keys__` has both of them in account."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (typing.Required, typing.NotRequired) else hint
