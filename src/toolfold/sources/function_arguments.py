"""The schemas of a function and the check of its arguments, both made by pydantic."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict  # pydantic refuses the one in `typing` before Python 3.12

from toolfold.errors import ToolError, UsageError
from toolfold.models import Json, Value
from toolfold.sources.first_mistake import stopping_check
from toolfold.sources.function_mistakes import MANY_UNKNOWN, explained, few_of
from toolfold.sources.function_signature import first_line, undescribable
from toolfold.sources.function_types import FunctionSchema
from toolfold.sources.function_words import Words
from toolfold.tools.values import to_value

_Prepare = Callable[[Mapping[str, Value]], Mapping[str, Any]]


def input_of(name: str, signature: inspect.Signature, words: Words) -> tuple[_Prepare, dict[str, Json]]:
    """The check of the arguments and the schema that describes it, both made by pydantic."""
    parameters = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    further = next((one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), None)
    adapter, schema = _described(name, parameters, is_open=further is not None)
    prepare_further = None if further is None else _further(name, further, schema)
    for parameter in parameters:
        _add_words(schema["properties"][parameter.name], parameter, words)
    fills = {one.name: one.default for one in parameters if isinstance(one.default, FieldInfo) and not _is_needed(one)}
    known = [one.name for one in parameters]
    most = len(known) + MANY_UNKNOWN if further is None else sys.maxsize
    validate = stopping_check(adapter)

    def prepare(arguments: Mapping[str, Value]) -> Mapping[str, Any]:
        if len(arguments) > most:
            arguments = few_of(arguments, known)
        try:
            values: dict[str, Any] = validate(arguments)
        except ValidationError as error:
            raise explained(name, error, arguments, adapter, known) from None
        if prepare_further is not None:
            values |= prepare_further({key: value for key, value in values.items() if key not in known})
        if fills:
            for missing_name in fills.keys() - values.keys():
                values[missing_name] = fills[missing_name].get_default(call_default_factory=True)
        return values

    return prepare, schema


def _further(name: str, parameter: inspect.Parameter, schema: dict[str, Json]) -> _Prepare | None:
    """The check of arguments that have no name in the signature, `**parameter`; adds to the schema what it says."""
    annotation = parameter.annotation
    if annotation is Any or annotation is object:
        return None
    # Any: what the annotation says is known at run time only.
    adapter: TypeAdapter[Any]
    try:
        adapter = TypeAdapter(dict[str, annotation])  # type: ignore[valid-type]  # as above
        described = adapter.json_schema(schema_generator=FunctionSchema)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        why = f"{getattr(annotation, '__name__', annotation)} is not a type that arguments can have"
        raise undescribable(name, f"**{parameter.name}", why) from error
    schema["additionalProperties"] = described["additionalProperties"]
    if "$defs" in described:
        schema["$defs"] = {**schema.get("$defs", {}), **described["$defs"]}
    validate = stopping_check(adapter)

    def prepare(arguments: Mapping[str, Value]) -> Mapping[str, Any]:
        try:
            values: dict[str, Any] = validate(arguments)
        except ValidationError as error:
            raise explained(name, error, arguments, adapter, ()) from None
        return values

    return prepare


def _described(
    name: str, parameters: Sequence[inspect.Parameter], *, is_open: bool
) -> tuple[TypeAdapter[Any], dict[str, Json]]:
    # A typed dict, not a model: a parameter may be called `schema` or `_x`, and one that is not
    # given stays out, so the function's own default applies.
    fields = {one.name: _annotation(one) for one in parameters}
    # Any: mypy wants literal names here, and these are known at run time only.
    make: Any = TypedDict
    shape = make(name, fields)
    shape.__pydantic_config__ = ConfigDict(extra="allow" if is_open else "forbid")
    try:
        adapter = TypeAdapter(shape)
        schema = adapter.json_schema(schema_generator=FunctionSchema)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        culprit = next((one for one in parameters if not _has_schema(one)), None)
        if culprit is None:
            raise UsageError(f"{name!r} cannot be a tool: {first_line(str(error))}") from error
        why = f"{getattr(culprit.annotation, '__name__', culprit.annotation)} is not a type that arguments can have"
        raise undescribable(name, culprit.name, why) from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return adapter, schema


def _annotation(parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    if parameter.default is None:
        annotation = typing.Optional[annotation]  # noqa: UP045  # `|` fails for a text; `lang: str = None` means it
    if isinstance(parameter.default, FieldInfo):
        annotation = typing.Annotated[annotation, parameter.default]
    return annotation if _is_needed(parameter) else NotRequired[annotation]


def _is_needed(parameter: inspect.Parameter) -> bool:
    default = parameter.default
    return default is parameter.empty or (isinstance(default, FieldInfo) and default.is_required())


def _has_schema(parameter: inspect.Parameter) -> bool:
    try:
        TypeAdapter(parameter.annotation).json_schema(schema_generator=FunctionSchema)
    except (PydanticUserError, PydanticUndefinedAnnotation):
        return False
    return True


def _add_words(described: dict[str, Json], parameter: inspect.Parameter, words: Words) -> None:
    if parameter.name in words.parameters:
        described.setdefault("description", words.parameters[parameter.name])
    if not _is_needed(parameter) and not isinstance(parameter.default, FieldInfo):
        # Without it the schema still says that the argument may be left out.
        with contextlib.suppress(ToolError, TypeError):
            default = to_value(parameter.default)
            json.dumps(default)  # bytes are a value, and not JSON
            described["default"] = default


def output_schema(annotation: Any, words: Words) -> dict[str, Json] | None:
    if annotation is Any or annotation is object:
        return None
    try:
        schema = TypeAdapter(annotation).json_schema(mode="serialization", schema_generator=FunctionSchema)
    except (PydanticUserError, PydanticUndefinedAnnotation):
        return None  # a DataFrame, for instance: it works, but says nothing of its columns
    if words.returns:
        schema.setdefault("description", words.returns)
    return schema
