"""Fields of `ToolSpec` that every source takes from its caller and hands on as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from toolfold.models import AllowedCallers, Json
from toolfold.tools.tool import RetryWhen


class SpecOptions(TypedDict, total=False):
    """What a tool is said to be, whatever it is made of; `ToolSpec` says what each field means."""

    domain: str
    read_only: bool
    idempotent: bool
    destructive: bool
    allowed_callers: AllowedCallers
    cache_seconds: float


class TimedSpecOptions(SpecOptions, total=False):
    """For sources that leave the timeout to the router."""

    timeout_seconds: float | None


class FunctionOptions(TimedSpecOptions, total=False):
    """For functions, whose signature and docstring say the rest."""

    name: str | None
    """Instead of the function's own; the same for the description."""
    description: str | None
    retry: RetryWhen
    examples: Sequence[Mapping[str, Json]]
