"""Signature of a function with resolved types, and what its docstring says, however it is wrapped."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NotRequired

from toolfold.errors import UsageError

# Any: a tool may be a function of any signature.
Function = Callable[..., Any]


def resolve_signature(fn: Function, name: str, namespace: dict[str, Any]) -> inspect.Signature:
    """Signature with real types in place of annotations that are text."""
    origin = origin_of(fn)
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
            parameters.append(parameter.replace(annotation=_resolve_annotation(parameter.annotation, names)))
        except Exception as error:
            # It evaluated text from the source, so it may be any exception.
            raise schema_error(name, parameter.name, str(error)) from error
    return signature.replace(parameters=parameters, return_annotation=_resolve_or_any(signature, names))


def origin_of(fn: Function) -> Any:
    """The function that has the code, the globals and the docstring."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = type(fn).__call__
    fn = inspect.unwrap(fn)
    return getattr(fn, "__func__", fn)


def local_names(fn: Function) -> dict[str, Any]:
    """Names local to the functions around `fn`, as far as those are still running."""
    origin = origin_of(fn)
    *outer, _ = getattr(origin, "__qualname__", "").split(".<locals>.")
    outer_names = {part.rpartition(".")[2] for part in outer}
    names: dict[str, Any] = {}
    # There is no public way to a caller's names, and pydantic takes this one too.
    frame = sys._getframe(1) if outer_names else None
    while frame is not None:
        if frame.f_code.co_name in outer_names and frame.f_globals is origin.__globals__:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _resolve_annotation(annotation: Any, names: dict[str, Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    holder = SimpleNamespace(__annotations__={"it": annotation})
    hint = typing.get_type_hints(holder, globalns=names, include_extras=True)["it"]
    # Before Python 3.12, pydantic refuses `typing.TypedDict`s.
    return hint if sys.version_info >= (3, 12) else _make_portable(hint, {})


def _resolve_or_any(signature: inspect.Signature, names: dict[str, Any]) -> Any:
    try:
        return _resolve_annotation(signature.return_annotation, names)
    # As above; and a tool works without a word on what it returns.
    except Exception:  # noqa: BLE001
        return Any


def _make_portable(annotation: Any, cache: dict[Any, Any]) -> Any:
    if typing.is_typeddict(annotation):
        return _typed_dict(annotation, cache)
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
    # Imported here: a runtime without functions does without it.
    from typing_extensions import TypedDict  # noqa: PLC0415

    cache[annotation] = Any  # a recursive one is not described further
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
    """Without `Required` and `NotRequired`, which are in `__optional_keys__` already."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (typing.Required, typing.NotRequired) else hint


def schema_error(name: str, parameter: str, reason: str) -> UsageError:
    return UsageError(f"{name!r} cannot be a tool: no schema for its parameter {parameter!r}: {first_line(reason)}")


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")


# ----------------------------------------------------------------------------------------------------
# Docstring of a function, with its parameters and its return value.


@dataclass(frozen=True, slots=True)
class Docstring:
    """Parsed docstring."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""

    @classmethod
    def of(cls, fn: Function) -> Docstring:
        """Read a Google, NumPy or Sphinx docstring; of any other, all is description."""
        text = inspect.getdoc(fn if inspect.isroutine(fn) or inspect.isclass(fn) else origin_of(fn)) or ""
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
            parameters={
                parameter.arg_name: parameter.description for parameter in parsed.params if parameter.description
            },
            returns=(parsed.returns.description or "") if parsed.returns else "",
        )
