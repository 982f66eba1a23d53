"""Schemas of functions and the check of their arguments, by pydantic, with errors that a model can act on."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NotRequired

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, SchemaValidator
from typing_extensions import TypedDict  # pydantic refuses the one in `typing` before Python 3.12

from toolfold.errors import ToolArgumentsInvalid, ToolError, UsageError
from toolfold.models import Json, Value
from toolfold.sources.function_signature import Docstring, first_line, schema_error
from toolfold.tools.arguments import TOO_LARGE_TO_EXPLAIN, bad_argument, missing, sample, show_value, unknown, wrong
from toolfold.tools.sendable_values import show_path, to_value

_NUMBER: Final = {"type": "number"}


class FunctionSchema(GenerateJsonSchema):
    """Pydantic's schemas without titles made from names, with the types that programs have."""

    # Any: pydantic's schemas are large unions of typed dicts that nothing here looks into.
    def field_title_should_be_set(self, _: Any) -> bool:
        return False

    def bytes_schema(self, schema: Any) -> JsonSchemaValue:
        # Bytes that a program has as `bytes`; `binary` is what others write for base64 or a file.
        return {**super().bytes_schema(schema), "type": "string", "format": "bytes"}

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
        """Stay silent: a default that JSON cannot show is left out of the schema."""


_NO_SCHEMA: Final = (PydanticUserError, PydanticUndefinedAnnotation)
_Prepare = Callable[[Mapping[str, Value]], Mapping[str, Any]]


def input_of(name: str, signature: inspect.Signature, docstring: Docstring) -> tuple[_Prepare, dict[str, Json]]:
    """The check of the arguments and the schema that describes it, both made by pydantic."""
    parameters = signature.parameters.values()
    named_parameters = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    var_keyword = next((parameter for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD), None)
    adapter, schema = _build_adapter(name, named_parameters, is_open=var_keyword is not None)
    prepare_extra = None if var_keyword is None else _build_extra_check(name, var_keyword, schema)
    for named_parameter in named_parameters:
        _add_description(schema["properties"][named_parameter.name], named_parameter, docstring)
    defaults = {
        parameter.name: parameter.default
        for parameter in named_parameters
        if isinstance(parameter.default, FieldInfo) and not _is_required(parameter)
    }
    names = [parameter.name for parameter in named_parameters]
    max_arguments = len(names) + MANY_UNKNOWN if var_keyword is None else sys.maxsize
    validate = stopping_check(adapter)

    def prepare(arguments: Mapping[str, Value]) -> Mapping[str, Any]:
        if len(arguments) > max_arguments:
            arguments = limit_unknown(arguments, names)
        try:
            values: dict[str, Any] = validate(arguments)
        except ValidationError as error:
            raise explain_error(name, error, arguments, adapter, names) from None
        if prepare_extra is not None:
            values |= prepare_extra({key: value for key, value in values.items() if key not in names})
        if defaults:
            for missing_name in defaults.keys() - values.keys():
                values[missing_name] = defaults[missing_name].get_default(call_default_factory=True)
        return values

    return prepare, schema


def _build_extra_check(name: str, parameter: inspect.Parameter, schema: dict[str, Json]) -> _Prepare | None:
    """The check of `**parameter`, whose schema is added to that of the arguments."""
    annotation = parameter.annotation
    if annotation is Any or annotation is object:
        return None
    # Any: what the annotation says is known at run time only.
    adapter: TypeAdapter[Any]
    try:
        adapter = TypeAdapter(dict[str, annotation])  # type: ignore[valid-type]  # as above
        extra_schema = adapter.json_schema(schema_generator=FunctionSchema)
    except _NO_SCHEMA as error:
        raise _type_error(name, f"**{parameter.name}", annotation) from error
    schema["additionalProperties"] = extra_schema["additionalProperties"]
    if "$defs" in extra_schema:
        schema["$defs"] = {**schema.get("$defs", {}), **extra_schema["$defs"]}
    validate = stopping_check(adapter)

    def prepare(arguments: Mapping[str, Value]) -> Mapping[str, Any]:
        try:
            values: dict[str, Any] = validate(arguments)
        except ValidationError as error:
            raise explain_error(name, error, arguments, adapter, ()) from None
        return values

    return prepare


def _build_adapter(
    name: str, parameters: Sequence[inspect.Parameter], *, is_open: bool
) -> tuple[TypeAdapter[Any], dict[str, Json]]:
    # A typed dict, not a model: a parameter may be called `schema` or `_x`, and one that is not
    # given stays out, so the function's own default applies.
    fields = {parameter.name: _annotation(parameter) for parameter in parameters}
    # Any: mypy wants literal names here, and these are known at run time only.
    make_typed_dict: Any = TypedDict
    shape = make_typed_dict(name, fields)
    shape.__pydantic_config__ = ConfigDict(extra="allow" if is_open else "forbid")
    try:
        adapter = TypeAdapter(shape)
        schema = adapter.json_schema(schema_generator=FunctionSchema)
    except _NO_SCHEMA as error:
        culprit = next((parameter for parameter in parameters if not _has_schema(parameter)), None)
        if culprit is None:
            raise UsageError(f"{name!r} cannot be a tool: {first_line(str(error))}") from error
        raise _type_error(name, culprit.name, culprit.annotation) from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return adapter, schema


def _type_error(name: str, parameter: str, annotation: Any) -> UsageError:
    reason = f"{getattr(annotation, '__name__', annotation)} is not a type that arguments can have"
    return schema_error(name, parameter, reason)


def _annotation(parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    if parameter.default is None:
        annotation = typing.Optional[annotation]  # noqa: UP045  # `|` fails for a text; `lang: str = None` means it
    if isinstance(parameter.default, FieldInfo):
        annotation = typing.Annotated[annotation, parameter.default]
    return annotation if _is_required(parameter) else NotRequired[annotation]


def _is_required(parameter: inspect.Parameter) -> bool:
    default = parameter.default
    return default is parameter.empty or (isinstance(default, FieldInfo) and default.is_required())


def _has_schema(parameter: inspect.Parameter) -> bool:
    try:
        TypeAdapter(parameter.annotation).json_schema(schema_generator=FunctionSchema)
    except _NO_SCHEMA:
        return False
    return True


def _add_description(schema: dict[str, Json], parameter: inspect.Parameter, docstring: Docstring) -> None:
    if parameter.name in docstring.parameters:
        schema.setdefault("description", docstring.parameters[parameter.name])
    if not _is_required(parameter) and not isinstance(parameter.default, FieldInfo):
        # Without it the schema still says that the argument may be left out.
        with contextlib.suppress(ToolError, TypeError):
            default = to_value(parameter.default)
            json.dumps(default)  # bytes are a value, and not JSON
            schema["default"] = default


def output_schema(annotation: Any, docstring: Docstring) -> dict[str, Json] | None:
    if annotation is Any or annotation is object:
        return None
    try:
        schema = TypeAdapter(annotation).json_schema(mode="serialization", schema_generator=FunctionSchema)
    except _NO_SCHEMA:
        return None  # a DataFrame, for instance: it works, but says nothing of its columns
    if docstring.returns:
        schema.setdefault("description", docstring.returns)
    return schema


# ----------------------------------------------------------------------------------------------------
# Errors of arguments, in words that a model can act on: pydantic's errors in the style of the router's.

_SHOULD_BE: Final = re.compile(r"Input should be (?:a valid (?P<noun>[^,]+).*|(?P<rest>.+))", re.DOTALL)
_MANY_ERRORS: Final = 500
MANY_UNKNOWN: Final = 20
_NOUNS: Final = {
    "boolean": "true or false", "dictionary": "an object", "integer": "an integer", "tuple": "a list", "set": "a list",
}  # fmt: skip


def explain_error(
    name: str, error: ValidationError, arguments: Mapping[str, Value], adapter: TypeAdapter[Any], names: Sequence[str]
) -> ToolArgumentsInvalid:
    part = sample(dict(arguments))
    # A small value is checked whole, for the number of mistakes; of a large one the first mistake has to do.
    if part == arguments or error.error_count() > _MANY_ERRORS:
        try:
            adapter.validator.validate_python(part)
        except ValidationError as smaller:
            error = smaller
        else:
            return bad_argument(name, TOO_LARGE_TO_EXPLAIN)
    first = error.errors(include_url=False, include_context=False)[0]
    return bad_argument(name, _explain(first, arguments, names), error.error_count() - 1)


def limit_unknown(arguments: Mapping[str, Value], known_names: Sequence[str]) -> Mapping[str, Value]:
    """Drop most unknown arguments: pydantic makes an error for each of them."""
    unknown_names = itertools.islice((name for name in arguments if name not in known_names), MANY_UNKNOWN)
    names = [*(name for name in known_names if name in arguments), *unknown_names]
    return {name: arguments[name] for name in names}


def _explain(error: ErrorDetails, arguments: Mapping[str, Value], names: Sequence[str]) -> str:
    path = _real_path(error["loc"], arguments)
    if error["type"] == "missing":
        return missing([*path, error["loc"][-1]])
    if error["type"] == "extra_forbidden":
        return unknown(path, names)
    if match := _SHOULD_BE.fullmatch(error["msg"]):
        return wrong(path, f"must be {match['rest'] or _noun(match['noun'])}", error["input"])
    text = error["msg"].removeprefix("Value error, ")
    return f"{show_path(path)}: {text[:1].lower()}{text[1:]}, got {show_value(error['input'])}"


def _noun(noun: str) -> str:
    plain = noun.partition(" or instance of")[0]
    return _NOUNS.get(plain) or f"a {plain}"


def _real_path(loc: tuple[int | str, ...], arguments: Mapping[str, Value]) -> list[int | str]:
    """Steps that exist in the data; pydantic adds others, for instance for a union."""
    path: list[int | str] = []
    value: Any = arguments
    for step in loc:
        try:
            value = value[step]
        except (LookupError, TypeError):
            continue
        path.append(step)
    return path


# ----------------------------------------------------------------------------------------------------
# Check of a pydantic type that stops at the first mistake in a list, set, tuple or dict.
#
# Pydantic collects them all: 8,000 wrong items against a union of two lists are 16,000 errors, and all that time nobody
# else is served. What it accepts, and as what, stays the same.

_COLLECTIONS: Final = frozenset({
    "list", "set", "frozenset", "tuple", "deque", "dict", "frozendict", "ordered-dict", "counter",
})  # fmt: skip
_INNER: Final = frozenset({
    "schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema", "lax_schema",
    "strict_schema", "json_schema", "python_schema", "var_args_schema", "var_kwargs_schema", "arguments_schema",
    "choices", "steps", "definitions", "fields",
})  # fmt: skip
"""Keys of a core schema that hold schemas. Never defaults or metadata, whose values are not ours."""
_OPAQUE: Final = "function-wrap"
"""Its function sees the errors, and may drop the wrong items that they name."""


# Any: an adapter of whatever annotation, and what it makes of the arguments.
def stopping_check(adapter: TypeAdapter[Any]) -> Callable[[Any], Any]:
    """As `adapter.validator.validate_python`, with fewer errors in its `ValidationError`."""
    collection_types: list[str] = []
    schema = _with_fail_fast(adapter.core_schema, collection_types)
    if not collection_types:
        return adapter.validator.validate_python
    try:
        # Prebuilt validators of models would be taken as they are, without what was changed here.
        validator = SchemaValidator(schema, _use_prebuilt=False)
    except TypeError:  # older versions of pydantic-core do not have the option
        validator = SchemaValidator(schema)
    return validator.validate_python


# Any: core schemas are dicts whose keys depend on their type; what is not one is given back.
def _with_fail_fast(schema: Any, collection_types: list[str]) -> Any:
    if not isinstance(schema, dict) or schema.get("type") == _OPAQUE:
        return schema
    copy = {key: _convert_inner(value, collection_types) if key in _INNER else value for key, value in schema.items()}
    if copy.get("type") in _COLLECTIONS:
        collection_types.append(copy["type"])
        copy["fail_fast"] = True
    return copy


def _convert_inner(value: Any, collection_types: list[str]) -> Any:
    if isinstance(value, list):
        return [_convert_inner(item, collection_types) for item in value]
    if isinstance(value, tuple):  # a choice of a union, and its label
        return tuple(_with_fail_fast(item, collection_types) for item in value)
    if isinstance(value, dict) and not isinstance(value.get("type"), str):  # fields, or choices by their tag
        return {key: _with_fail_fast(item, collection_types) for key, item in value.items()}
    return _with_fail_fast(value, collection_types)
