"""What is wrong with arguments, in words that a model can act on: pydantic's findings, said as the router says them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from toolfold.errors import ToolArgumentsInvalid
from toolfold.models import Value
from toolfold.tools.arguments import TOO_LARGE_TO_EXPLAIN, bad_argument, missing, sample, shown, unknown, wrong
from toolfold.tools.values import show_path

_SHOULD_BE: Final = re.compile(r"Input should be (?:a valid (?P<noun>[^,]+).*|(?P<rest>.+))", re.DOTALL)
_MANY_ERRORS: Final = 500
MANY_UNKNOWN: Final = 20
_NOUNS: Final = {
    "boolean": "true or false",
    "dictionary": "an object",
    "integer": "an integer",
    "tuple": "a list",
    "set": "a list",
}


def explained(
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


def few_of(arguments: Mapping[str, Value], known: Sequence[str]) -> Mapping[str, Value]:
    """What is as wrong, with less of it to look at: pydantic makes an error for each name that it does not know."""
    unknown_names = itertools.islice((one for one in arguments if one not in known), MANY_UNKNOWN)
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
