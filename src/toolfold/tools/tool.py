"""A tool: what a program may know of it, and how it is called. Knows no source and no router."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolfold.models import ToolSpec, Value


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
