"""Schemas of operations, made when somebody first looks into them: of a thousand, a program reads three.

A large program is checked in another process, so they can be pickled; they are sent as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from toolfold.models import Json
from toolfold.sources.openapi.model import Operation
from toolfold.sources.openapi.operations import NEXT_QUERY, WITH_RESPONSE
from toolfold.sources.openapi.schemas import Look, closed
from toolfold.tools.arguments import bounded


class LazySchema(Mapping[str, Json]):
    """A schema that is still to be made, by a function that can be pickled."""

    def __init__(self, make: Callable[[], Mapping[str, Json]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, Json]:
        return self._make()

    def __getitem__(self, key: str) -> Json:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    # Any: the arguments of whatever makes it.
    def __reduce__(self) -> tuple[type[LazySchema], tuple[Any]]:
        return LazySchema, (self._make,)

    def __bool__(self) -> bool:
        """Asked often, of every tool; a schema of an operation is never empty."""
        return True


def input_schema(operation: Operation, tool: str) -> Mapping[str, Json]:
    """Of the arguments that the operation still has; one that stands for too much takes anything."""
    schema: dict[str, Json] = msgspec.msgpack.decode(operation.input_schema)
    known = {one.name for one in operation.arguments} | {WITH_RESPONSE, NEXT_QUERY}
    if operation.body is not None:
        known.add(operation.body.whole)
    schema["properties"] = {name: one for name, one in schema["properties"].items() if name in known}
    schema["required"] = [name for name in schema["required"] if name in known]
    within = bounded(schema, tool)
    if within is schema:
        return schema
    return {**within, "additionalProperties": schema["additionalProperties"] is not False}


def output_schema(packed: bytes, look: Look) -> Mapping[str, Json]:
    """Of what comes back; nothing is said where it is nested too deeply for whoever asks."""
    try:
        return closed(msgspec.msgpack.decode(packed), look, "output")
    except RecursionError:
        return {}
