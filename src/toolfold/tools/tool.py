"""A tool: what a program may know of it, and how it is called. Knows no source and no router."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from toolfold.errors import ToolArgumentsInvalid
from toolfold.models import ToolSpec, Value
from toolfold.tools.context import CallContext
from toolfold.tools.names import python_name

RetryWhen: TypeAlias = Literal["safe", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A spec and its call.

    Call it through a `Router` only: that is where arguments are checked and failures become replies.
    """

    spec: ToolSpec
    # Any: a tool may return whatever `shape.to_value` takes.
    call: Callable[[Mapping[str, Any]], Awaitable[Any]]
    """Takes the arguments, returns the reply's value, raises any exception on failure."""
    prepare: Callable[[Mapping[str, Value]], Mapping[str, Any]] | None = None
    """Checks the arguments and turns them into what `call` takes, or raises `ToolArgumentsInvalid`.

    `None`: `call` takes them as they came, and the router checks them against `spec.input_schema`.
    """
    call_within: Callable[[Mapping[str, Any], CallContext], Awaitable[Any]] | None = None
    """In place of `call`, where the tool must know whose call it is: a program within a program."""
    retry: RetryWhen = "safe"
    """After a failure: `safe` tries again only where that cannot do a thing twice (see `retry`)."""
    origin: str = ""
    """Where another process finds it: `module:name` or `/folder/file.py:name`; empty where it cannot."""
    close: Callable[[], Awaitable[None]] | None = None
    """Lets go of connections when a runtime is left; a later call opens new ones. Tools that share them share this."""


def with_name(tool: Tool, name: str) -> Tool:
    """The same tool under another name, also in what it says of its arguments."""
    old, prepare = tool.spec.name, tool.prepare
    if name == old:
        return tool

    def prepare_as(arguments: Mapping[str, Value]) -> Mapping[str, Any]:
        assert prepare is not None
        try:
            return prepare(arguments)
        except ToolArgumentsInvalid as error:
            raise ToolArgumentsInvalid(str(error).replace(repr(old), repr(name), 1)) from error

    spec = replace(tool.spec, name=name, python_name=python_name(name), aliases=())
    return replace(tool, spec=spec, prepare=prepare and prepare_as)
