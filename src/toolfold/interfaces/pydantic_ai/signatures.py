"""Signatures of tools as text: from a Python function, or from the JSON schema of a tool elsewhere."""

from __future__ import annotations

import builtins
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_ai import RunContext

from toolfold.models import Json, ToolSpec
from toolfold.prompts.python_stubs import stub_of
from toolfold.prompts.schema_types import Types
from toolfold.prompts.wording import docstring
from toolfold.sources.function_tools import tool_from_function
from toolfold.tools.tool import python_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A tool as a model reads it."""

    name: str
    """The identifier that a program calls it by."""
    signature: str
    """The head of the function and its docstring."""
    type_definitions: tuple[str, ...] = ()
    """The records that the signature names, each a class."""

    def __str__(self) -> str:
        return "\n\n".join((*self.type_definitions, self.signature))


# Any: a function of any signature.
def signature_from_function(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None,
    include_return_type: bool = True,
) -> Signature:  # fmt: skip
    """The signature of a Python function as it is written; a first parameter that is a `RunContext` is left out.

    Types of one's own are written as records that say what is in them.

    Raises:
        UsageError: it cannot be a tool; the text says why.
    """
    plain = _without_context(function)
    spec = tool_from_function(plain, name=name, description=description).spec
    types = Types()
    stub = stub_of(spec, types)
    from_schema = {parameter.name: parameter.annotation for parameter in stub.parameters}
    signature = inspect.signature(plain)
    parameters = [
        parameter.replace(annotation=_Text(_own_text(parameter.annotation) or from_schema.get(parameter.name, "Any")))
        for parameter in signature.parameters.values()
    ]
    return_annotation = _Text(_own_text(signature.return_annotation) or stub.returns)
    head = signature.replace(
        parameters=parameters, return_annotation=return_annotation if include_return_type else inspect.Signature.empty
    )
    start = "async def" if inspect.iscoroutinefunction(function) else "def"
    type_text = " ".join([*from_schema.values(), stub.returns if include_return_type else ""])
    return Signature(
        name=stub.name,
        signature=_with_words(f"{start} {stub.name}{head}:", stub.doc()),
        type_definitions=_needed_declarations(types, f"{type_text} {head}"),
    )


def signature_from_schema(
    name: str, parameters_json_schema: Mapping[str, Json], *, description: str | None = None,
    return_json_schema: Mapping[str, Json] | None = None, include_return_type: bool = True,
) -> Signature:  # fmt: skip
    """The signature of a tool that is known by its JSON schema only, as those of MCP servers are."""
    spec = ToolSpec(
        name=name, python_name=python_name(name), description=description or "", input_schema=parameters_json_schema,
        output_schema=return_json_schema if include_return_type else None,
    )  # fmt: skip
    types = Types()
    stub = stub_of(spec, types)
    head = stub.head() if include_return_type else stub.head().removesuffix(" -> Any:") + ":"
    return Signature(
        name=stub.name, signature=_with_words(head, stub.doc()), type_definitions=tuple(types.declarations.values())
    )


class _Text:
    """An annotation that is written as the text it holds."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _with_words(head: str, words: str) -> str:
    return f"{head}\n{docstring(words) or '    ...'}"


# Any: an annotation is anything.
def _own_text(annotation: Any) -> str:
    """An annotation as it is written, where a reader needs no definition for it; else nothing."""
    if annotation is inspect.Parameter.empty:
        return "Any"
    if annotation is None or annotation is type(None):
        return "None"
    text = inspect.formatannotation(annotation)
    without_strings = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    names = re.findall(r"[A-Za-z_][\w.]*", without_strings)
    is_known = all(hasattr(builtins, name) or name in typing.__all__ for name in names)
    return text if is_known else ""


def _needed_declarations(types: Types, text: str) -> tuple[str, ...]:
    """The records that a signature names, and those that they name."""
    names = set(re.findall(r"\w+", text))
    declarations: dict[str, str] = {}
    for name, declaration in reversed(types.declarations.items()):
        if name in names:
            declarations[name] = declaration
            names |= set(re.findall(r"\w+", declaration))
    return tuple(reversed(declarations.values()))


def _without_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a model calls it, with its annotations resolved."""
    try:
        hints = typing.get_type_hints(function)
    # A name that is not defined yet, or not at all: the annotation stays as it is written.
    except Exception:  # noqa: BLE001
        hints = {}
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        for parameter in signature.parameters.values()
    ]
    if parameters and _is_context(parameters[0].annotation):
        del parameters[0]

    def plain(**arguments: Any) -> None:
        """Never called: only what it looks like counts."""

    plain.__name__ = function.__name__
    plain.__doc__ = function.__doc__
    plain.__module__ = function.__module__
    plain.__signature__ = signature.replace(  # type: ignore[attr-defined]  # mypy does not know that a function may have one
        parameters=parameters, return_annotation=hints.get("return", signature.return_annotation)
    )
    return plain


def _is_context(annotation: Any) -> bool:
    return annotation is RunContext or typing.get_origin(annotation) is RunContext or "RunContext" in str(annotation)
