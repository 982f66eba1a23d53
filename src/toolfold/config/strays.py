"""Patterns of a config that mean no tool: most likely a typo, and without a word it would go unnoticed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from toolfold.config.model import Config
from toolfold.models import ToolSpec
from toolfold.tools.names import Globs, near_names

_log = logging.getLogger(__name__)


class Strays:
    """Warns of each such pattern once, however often the tools change."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._said: set[str] = set()

    def warn(self, specs: Iterable[ToolSpec]) -> None:
        """To be called when all tools are known."""
        for line in stray_patterns(self._config, tuple(specs)):
            if line not in self._said:
                self._said.add(line)
                _log.warning("%s", line)


def stray_patterns(config: Config, specs: tuple[ToolSpec, ...]) -> Iterator[str]:
    """One line for each; a blocked name only if it is nearly a tool's, for one may block what is not there."""
    names = sorted({name for spec in specs for name in (spec.name, spec.python_name)})
    for place, pattern in _patterns(config):
        if any(Globs([pattern]).match(spec) for spec in specs):
            continue
        near = near_names(pattern, names)
        if near or place[1] != "block":
            hint = f"did you mean {near!r}?" if near else "it has no effect"
            yield f"{config.place(*place)}: no tool matches {pattern!r}; {hint}"


def _patterns(config: Config) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for key in ("allow", "block", "ask"):
        for at, pattern in enumerate(getattr(config.tools, key) or ()):
            yield ("tools", key, at), pattern
    for pattern in config.policies:
        yield ("policies", pattern), pattern
