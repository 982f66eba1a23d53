"""A mapping that is made when somebody first looks into it: of a thousand schemas a program reads three."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from toolfold.models import Json


class LazySchema(Mapping[str, Json]):
    """A schema that is still to be made."""

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

    def __bool__(self) -> bool:
        """Asked often, of every tool; a schema of an operation is never empty."""
        return True
