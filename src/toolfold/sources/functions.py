"""Python functions as tools: schema from the signature, words from the docstring.

The decorator only marks the function; the tool is made when a catalog asks for it (`as_tool`).
So a decorated function stays the function it was, methods still bind, and an annotation may
name a class that is defined further down.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import itertools
import json
import re
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, NotRequired, TypeVar, Unpack, overload

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict  # pydantic refuses the one in `typing` before Python 3.12

from toolfold.errors import ToolArgumentsInvalid, ToolError, UsageError
from toolfold.models import Json, ToolSpec, Value
from toolfold.sources.first_mistake import stopping_check
from toolfold.sources.function_types import FunctionSchema, portable
from toolfold.tools.context import CallContext
from toolfold.tools.names import python_name
from toolfold.tools.schema import TOO_LARGE_TO_EXPLAIN, bad_argument, missing, sample, shown, unknown, wrong
from toolfold.tools.shape import show_path, to_value
from toolfold.tools.spec_options import FunctionOptions, TimedSpecOptions
from toolfold.tools.tool import RetryWhen, Tool

# Any: a tool may be a function of any signature.
Function = Callable[..., Any]
_F = TypeVar("_F", bound=Function)

# As many as calls may be in flight: the default pool has four more than there are cores, and a
# `gather` of 100 slow functions would queue there. Threads start when they are needed.
_threads: Final = ThreadPoolExecutor(max_workers=100, thread_name_prefix="toolfold-tool")

_MARK: Final = "__toolfold_tool__"


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(**options: Unpack[FunctionOptions]) -> Callable[[_F], _F]: ...
# Any: the overloads above have the options; they mean what they mean for `tool_from_function`.
def tool(function: Function | None = None, /, **options: Any) -> Any:
    """Mark a function as a tool, bare (`@tool`) or with the options of `tool_from_function`."""
    for misspelt in options.keys() - FunctionOptions.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {misspelt!r}")
    if function is None:
        return lambda marked: _mark(marked, options)
    return _mark(function, options)


def as_tool(obj: Tool | Function) -> Tool:
    """The tool that is meant by a `Tool`, a function with or without `@tool`, or another callable.

    Raises:
        UsageError: it cannot be a tool; the text says why.
    """
    if isinstance(obj, Tool):
        return obj
    if not callable(obj):
        raise UsageError(f"{shown(obj)} cannot be a tool: it is neither a Tool nor callable")
    mark = getattr(obj, _MARK, None) or _Mark()
    return _tool_from(obj, mark.namespace, **mark.options)


def tool_from_function(fn: Function, **options: Unpack[FunctionOptions]) -> Tool:
    """A tool that calls `fn`: awaited if it is async, else run in a thread with the caller's context.

    A parameter of type `CallContext` is filled in here and unknown to programs: whose call it is, and its
    idempotency key.

    A thread cannot be stopped: after a timeout, a function that is not async runs on unheard.

    Raises:
        UsageError: it takes `*args`, yields, or has a parameter that no schema can describe.
    """
    return _tool_from(fn, {}, **options)


@dataclass(frozen=True, slots=True)
class _Mark:
    """What `@tool` leaves on a function."""

    options: Mapping[str, Any] = field(default_factory=dict)
    namespace: Mapping[str, Any] = field(default_factory=dict)
    """Local names where it was defined, for annotations that are still text."""


def _mark(function: _F, options: Mapping[str, Any]) -> _F:
    if not callable(function):
        raise UsageError(f"{shown(function)} cannot be marked with @tool: it is not callable")
    # Only the names in its annotations: a mark must not keep all that was local alive.
    words: set[str] = set()
    # From Python 3.14 on, reading them fails while a class they name is not there yet.
    with contextlib.suppress(NameError):
        words.update(re.findall(r"\w+", str(getattr(_origin(function), "__annotations__", ""))))
    names = {name: value for name, value in _local_names(function).items() if name in words}
    try:
        setattr(function, _MARK, _Mark(options, names))
    except AttributeError:
        raise UsageError(f"{shown(function)} cannot be marked with @tool; use tool_from_function") from None
    return function


def _tool_from(
    fn: Function,
    namespace: Mapping[str, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    retry: RetryWhen = "safe",
    examples: Sequence[Mapping[str, Json]] = (),
    **hints: Unpack[TimedSpecOptions],
) -> Tool:
    name = name or _name_of(fn)
    signature = _signature(fn, name, {**namespace, **_local_names(fn)})
    words = _Words.of(fn)
    visible = [one for one in signature.parameters.values() if one.annotation is not CallContext]
    prepare, input_schema = _input(name, signature.replace(parameters=visible), words)
    spec = ToolSpec(
        name=name,
        python_name=python_name(name),
        description=words.description if description is None else description,
        input_schema=input_schema,
        output_schema=_output_schema(signature.return_annotation, words),
        examples=tuple(examples),
        is_lenient=True,
        **hints,
    )
    call = _call(fn, signature)
    hidden = [one.name for one in signature.parameters.values() if one.annotation is CallContext]
    if not hidden:
        return Tool(spec=spec, call=call, prepare=prepare, retry=retry)

    def call_within(arguments: Mapping[str, Any], context: CallContext) -> Awaitable[Any]:
        return call({**arguments, **dict.fromkeys(hidden, context)})

    alone = functools.partial(call_within, context=CallContext())
    return Tool(spec=spec, call=alone, call_within=call_within, prepare=prepare, retry=retry)


def _name_of(fn: Function) -> str:
    if isinstance(fn, functools.partial):
        return _name_of(fn.func)
    name: str = getattr(fn, "__name__", None) or type(fn).__name__
    if name == "<lambda>":
        raise UsageError("a lambda cannot be a tool without a name; use tool_from_function(..., name='...')")
    return name


# --- the signature ---------------------------------------------------------------------------


def _signature(fn: Function, name: str, namespace: dict[str, Any]) -> inspect.Signature:
    """The signature with real types in place of annotations that are text."""
    origin = _origin(fn)
    if inspect.isgeneratorfunction(origin) or inspect.isasyncgenfunction(origin):
        raise UsageError(f"{name!r} cannot be a tool: it yields; return a list instead")
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError, NameError) as error:
        raise UsageError(f"{name!r} cannot be a tool: {error}") from error
    names = {**getattr(origin, "__globals__", {}), **namespace}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise UsageError(f"{name!r} cannot be a tool: it takes *{parameter.name}; give each argument a name")
        if parameter.name == "self" and not parameters:
            raise UsageError(f"{name!r} cannot be a tool: it takes self; pass the method of an instance")
        try:
            parameters.append(parameter.replace(annotation=_resolved(parameter.annotation, names)))
        except Exception as error:
            # It evaluated text from the source, so it may be any exception.
            raise _undescribable(name, parameter.name, str(error)) from error
    return signature.replace(parameters=parameters, return_annotation=_resolved_or_any(signature, names))


def _origin(fn: Function) -> Any:
    """The function that has the code, the globals and the docstring."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = type(fn).__call__
    fn = inspect.unwrap(fn)
    return getattr(fn, "__func__", fn)


def _local_names(fn: Function) -> dict[str, Any]:
    """Names local to the functions around `fn`, as far as those are still running."""
    origin = _origin(fn)
    *outer, _ = getattr(origin, "__qualname__", "").split(".<locals>.")
    outer_names = {part.rpartition(".")[2] for part in outer}
    found: dict[str, Any] = {}
    # There is no public way to a caller's names, and pydantic takes this one too.
    frame = sys._getframe(1) if outer_names else None
    while frame is not None:
        if frame.f_code.co_name in outer_names and frame.f_globals is origin.__globals__:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return portable(typing.get_type_hints(holder, globalns=names, include_extras=True)["it"])


def _resolved_or_any(signature: inspect.Signature, names: dict[str, Any]) -> Any:
    try:
        return _resolved(signature.return_annotation, names)
    # As above; and a tool works without a word on what it returns.
    except Exception:  # noqa: BLE001
        return Any


def _undescribable(name: str, parameter: str, why: str) -> UsageError:
    return UsageError(f"{name!r} cannot be a tool: no schema for its parameter {parameter!r}: {_first_line(why)}")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")


# --- schemas and the check of arguments ------------------------------------------------------


_Prepare = Callable[[Mapping[str, Value]], Mapping[str, Any]]


def _input(name: str, signature: inspect.Signature, words: _Words) -> tuple[_Prepare, dict[str, Json]]:
    """The check of the arguments and the schema that describes it, both made by pydantic."""
    parameters = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    further = next((one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), None)
    adapter, schema = _described(name, parameters, is_open=further is not None)
    prepare_further = None if further is None else _further(name, further, schema)
    for parameter in parameters:
        _add_words(schema["properties"][parameter.name], parameter, words)
    fills = {one.name: one.default for one in parameters if isinstance(one.default, FieldInfo) and not _is_needed(one)}
    known = [one.name for one in parameters]
    most = len(known) + _MANY_UNKNOWN if further is None else sys.maxsize
    validate = stopping_check(adapter)

    def prepare(arguments: Mapping[str, Value]) -> Mapping[str, Any]:
        if len(arguments) > most:
            arguments = _few(arguments, known)
        try:
            values: dict[str, Any] = validate(arguments)
        except ValidationError as error:
            raise _explained(name, error, arguments, adapter, known) from None
        if prepare_further is not None:
            values |= prepare_further({key: value for key, value in values.items() if key not in known})
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
        raise _undescribable(name, f"**{parameter.name}", why) from error
    schema["additionalProperties"] = described["additionalProperties"]
    if "$defs" in described:
        schema["$defs"] = {**schema.get("$defs", {}), **described["$defs"]}
    validate = stopping_check(adapter)

    def prepare(arguments: Mapping[str, Value]) -> Mapping[str, Any]:
        try:
            values: dict[str, Any] = validate(arguments)
        except ValidationError as error:
            raise _explained(name, error, arguments, adapter, ()) from None
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
            raise UsageError(f"{name!r} cannot be a tool: {_first_line(str(error))}") from error
        why = f"{getattr(culprit.annotation, '__name__', culprit.annotation)} is not a type that arguments can have"
        raise _undescribable(name, culprit.name, why) from error
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


def _add_words(described: dict[str, Json], parameter: inspect.Parameter, words: _Words) -> None:
    if parameter.name in words.parameters:
        described.setdefault("description", words.parameters[parameter.name])
    if not _is_needed(parameter) and not isinstance(parameter.default, FieldInfo):
        # Without it the schema still says that the argument may be left out.
        with contextlib.suppress(ToolError, TypeError):
            default = to_value(parameter.default)
            json.dumps(default)  # bytes are a value, and not JSON
            described["default"] = default


def _output_schema(annotation: Any, words: _Words) -> dict[str, Json] | None:
    if annotation is Any or annotation is object:
        return None
    try:
        schema = TypeAdapter(annotation).json_schema(mode="serialization", schema_generator=FunctionSchema)
    except (PydanticUserError, PydanticUndefinedAnnotation):
        return None  # a DataFrame, for instance: it works, but says nothing of its columns
    if words.returns:
        schema.setdefault("description", words.returns)
    return schema


# --- words -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Words:
    """What a docstring says."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""

    @classmethod
    def of(cls, fn: Function) -> _Words:
        """Read a Google, NumPy or Sphinx docstring; of any other, all is description."""
        text = inspect.getdoc(fn if inspect.isroutine(fn) or inspect.isclass(fn) else _origin(fn)) or ""
        if "\n" not in text:
            return cls(description=text)
        # Imported here: it takes 25 ms, and many tools have a docstring of one line.
        import docstring_parser  # noqa: PLC0415

        try:
            parsed = docstring_parser.parse(text)
        except docstring_parser.ParseError:
            return cls(description=text)
        return cls(
            description=(parsed.description or "").strip(),
            parameters={one.arg_name: one.description for one in parsed.params if one.description},
            returns=(parsed.returns.description or "") if parsed.returns else "",
        )


# --- what is wrong with arguments ------------------------------------------------------------

_SHOULD_BE: Final = re.compile(r"Input should be (?:a valid (?P<noun>[^,]+).*|(?P<rest>.+))", re.DOTALL)
_MANY_ERRORS: Final = 500
_MANY_UNKNOWN: Final = 20
_NOUNS: Final = {
    "boolean": "true or false",
    "dictionary": "an object",
    "integer": "an integer",
    "tuple": "a list",
    "set": "a list",
}


def _explained(
    name: str, error: ValidationError, arguments: Mapping[str, Value], adapter: TypeAdapter[Any], known: Sequence[str]
) -> ToolArgumentsInvalid:
    part = sample(dict(arguments))
    # What is small is looked at whole, for the number of mistakes; in a large value the first one has to do.
    if part == arguments or error.error_count() > _MANY_ERRORS:
        try:
            adapter.validator.validate_python(part)
        except ValidationError as smaller:
            error = smaller
        else:
            return bad_argument(name, TOO_LARGE_TO_EXPLAIN)
    first = error.errors(include_url=False, include_context=False)[0]
    return bad_argument(name, _explain(first, arguments, known), error.error_count() - 1)


def _few(arguments: Mapping[str, Value], known: Sequence[str]) -> Mapping[str, Value]:
    """What is as wrong, with less of it to look at: pydantic makes an error for each name that it does not know."""
    unknown_names = itertools.islice((one for one in arguments if one not in known), _MANY_UNKNOWN)
    names = [*(one for one in known if one in arguments), *unknown_names]
    return {one: arguments[one] for one in names}


def _explain(error: ErrorDetails, arguments: Mapping[str, Value], known: Sequence[str]) -> str:
    path = _real_path(error["loc"], arguments)
    if error["type"] == "missing":
        return missing([*path, error["loc"][-1]])
    if error["type"] == "extra_forbidden":
        return unknown(path, known)
    if found := _SHOULD_BE.fullmatch(error["msg"]):
        return wrong(path, f"must be {found['rest'] or _noun(found['noun'])}", error["input"])
    text = error["msg"].removeprefix("Value error, ")
    return f"{show_path(path)}: {text[:1].lower()}{text[1:]}, got {shown(error['input'])}"


def _noun(noun: str) -> str:
    plain = noun.partition(" or instance of")[0]
    return _NOUNS.get(plain) or f"a {plain}"


def _real_path(loc: tuple[int | str, ...], arguments: Mapping[str, Value]) -> list[int | str]:
    """The steps that exist in the data; pydantic adds some of its own, for instance for a union."""
    path: list[int | str] = []
    here: Any = arguments
    for step in loc:
        try:
            here = here[step]
        except (LookupError, TypeError):
            continue
        path.append(step)
    return path


# --- the call --------------------------------------------------------------------------------


def _call(fn: Function, signature: inspect.Signature) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
    first = [one for one in signature.parameters.values() if one.kind is one.POSITIONAL_ONLY]
    if first:
        fn = _by_name(fn, first)
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
        return lambda arguments: fn(**arguments)  # its coroutine, with none of ours around it

    async def call(arguments: Mapping[str, Any]) -> Any:
        context = contextvars.copy_context()
        run = functools.partial(context.run, _run, fn, arguments)
        result = await asyncio.get_running_loop().run_in_executor(_threads, run)
        return await result if inspect.isawaitable(result) else result

    return call


def _run(fn: Function, arguments: Mapping[str, Any]) -> Any:
    try:
        return fn(**arguments)
    except StopIteration as error:
        # A future cannot hold it: the call would never end.
        raise RuntimeError("StopIteration") from error


def _by_name(fn: Function, first: Sequence[inspect.Parameter]) -> Function:
    """`fn` with its positional-only parameters given by name."""

    def call(**arguments: Any) -> Any:
        given = [arguments.pop(one.name, one.default) for one in first]
        return fn(*given, **arguments)

    if inspect.iscoroutinefunction(fn):

        async def call_async(**arguments: Any) -> Any:
            return await call(**arguments)

        return call_async
    return call
