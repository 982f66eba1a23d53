"""Which tools a pattern means: `*`, `?` and `[...]` over every name of a tool, case kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate

from toolfold.errors import UsageError
from toolfold.models import ToolSpec


class Globs:
    """Patterns that match a tool by its name, its identifier or an alias."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        for pattern in self.patterns:
            if not pattern:
                raise UsageError(f"{pattern!r} is no pattern for tool names; write a name, or 'prefix_*'")
        self._match = re.compile("|".join(translate(pattern) for pattern in self.patterns) or r"(?!)").match

    def match(self, spec: ToolSpec) -> bool:
        """Whether any pattern means this tool."""
        return any(self._match(name) for name in (spec.name, spec.python_name, *spec.aliases))

    def match_text(self, text: str) -> bool:
        """Whether any pattern means this text."""
        return self._match(text) is not None


def least(numbers: Mapping[str, int], spec: ToolSpec) -> int | None:
    """The smallest number among the patterns that mean this tool, if any does."""
    return min((number for pattern, number in numbers.items() if Globs([pattern]).match(spec)), default=None)


def positive(numbers: Mapping[str, int], what: str) -> dict[str, int]:
    """The numbers, each checked: a limit of zero is a block and should be written as one.

    Raises:
        UsageError: one is less than 1.
    """
    for pattern, number in numbers.items():
        if number < 1:
            raise UsageError(f"{what} of {pattern!r} must be at least 1, got {number!r}")
    return dict(numbers)
