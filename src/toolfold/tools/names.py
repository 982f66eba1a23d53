"""Tool names as Python identifiers, unique in both directions, and patterns over them (`Globs`).

`python_name` is the rule that LibreChat's clients apply too, so their programs find their tools:
`-` and white space become `_`, other signs are dropped, `_` goes before a leading digit and
`_tool` after a keyword. On top of it, within one catalog (`unique_names`):

* A name that Python or the guest has already (`print`, `open`, `tools`, `asyncio`, ...) gets `_tool` too:
  a program whose `print` calls a tool can say nothing. `toolfold_guest.shared.names` has them all.
* Where several tools come to one identifier, the tool that is spelt exactly so keeps it and each
  other gets a suffix made from its own name: `a-b` beside `a_b` is `a_b_` and six hex digits.
  If none is spelt so, all get one. The order of the tools does not matter, and an identifier
  never moves from one inexactly spelt tool to another.
"""

from __future__ import annotations

import difflib
import hashlib
import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import translate
from typing import Final

from toolfold.errors import UsageError
from toolfold.models import ToolSpec
from toolfold_guest.shared.names import RESERVED

_SPACE: Final = re.compile(r"[-\s]")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")
_SUFFIX_DIGITS: Final = 6


def python_name(name: str) -> str:
    """The identifier of a tool that is alone with it; `tool_<hash>` if no sign of the name is left."""
    text = _OTHER.sub("", _SPACE.sub("_", name))
    if not text:
        return f"tool_{_digits(name, _SUFFIX_DIGITS)}"
    if text[0].isdigit():
        text = f"_{text}"
    return f"{text}_tool" if keyword.iskeyword(text) else text


def unique_names(names: Iterable[str]) -> dict[str, str]:
    """Each name's identifier, no two alike, whatever the order of `names`."""
    groups: dict[str, list[str]] = {}
    for name in set(names):
        groups.setdefault(avoid_reserved(python_name(name)), []).append(name)
    return {name: identifier for base in groups for name, identifier in settle_identifiers(base, groups).items()}


def avoid_reserved(identifier: str) -> str:
    """The identifier, out of the way of the names that programs have already."""
    return f"{identifier}_tool" if identifier in RESERVED else identifier


def avoid_reserved_names(spec: ToolSpec) -> ToolSpec:
    """The spec with such an identifier; after `tools.` its own spelling means it too, for that hides nothing."""
    own = python_name(spec.name)
    identifier = spec.python_name or own
    if identifier not in RESERVED and own not in RESERVED:
        return spec
    hidden = [name for name in dict.fromkeys((identifier, own)) if name in RESERVED and name not in spec.aliases]
    return replace(spec, python_name=avoid_reserved(identifier), aliases=(*spec.aliases, *hidden))


def near_names(name: str, names: Collection[str]) -> str:
    """The name most like a misspelt one; empty if none is."""
    return next(iter(difflib.get_close_matches(name, names, 1, 0.75)), "")


def settle_identifiers(base: str, groups: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The identifiers of all names that come to `base`; `groups` has every base that is in use."""
    names = groups[base]
    if len(names) == 1:
        return dict.fromkeys(names, base)
    for digits in range(_SUFFIX_DIGITS, 65, 2):
        identifiers = {name: base if name == base else f"{base}_{_digits(name, digits)}" for name in names}
        distinct = set(identifiers.values())
        if len(distinct) == len(names) and not (distinct - {base}) & groups.keys():
            return identifiers
    raise AssertionError("two names with one SHA-256")


def _digits(name: str, count: int) -> str:
    # A name from outside may hold half a surrogate pair, which UTF-8 does not have.
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:count]


# ----------------------------------------------------------------------------------------------------
# Which tools a pattern means: `*`, `?` and `[...]` over every name of a tool, case kept.


class Globs:
    """Patterns that match a tool by its name, its identifier or an alias."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        for pattern in self.patterns:
            if not pattern:
                raise UsageError(f"{pattern!r} is not a pattern for tool names; write a name, or 'prefix_*'")
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


def positive(numbers: Mapping[str, int], label: str) -> dict[str, int]:
    """The numbers, each checked: a limit of zero is a block and should be written as one.

    Raises:
        UsageError: one is less than 1.
    """
    for pattern, number in numbers.items():
        if number < 1:
            raise UsageError(f"{label} of {pattern!r} must be at least 1, got {number!r}")
    return dict(numbers)
