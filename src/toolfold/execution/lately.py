"""What the latest replies looked like, for a program that misread one or said nothing.

It keeps a few small replies until the program ends, and writes nothing down unless it is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from toolfold.engines.base import Ended
from toolfold.models import Problem, Reply, ToolSpec, Value
from toolfold.program.rules.replies import tools_behind
from toolfold.tools.reply_shapes import shape_text

_MOST_TOOLS: Final = 8
_MOST_TOLD: Final = 3
_HELD_BYTES: Final = 64 * 1024
"""Of a reply that is held as it is; of a larger one only its shape is."""
_MISREAD: Final = re.compile(
    r"KeyError: (?P<key>.*)|IndexError: .*|AttributeError: .* has no attribute '(?P<attribute>\w+)'.*"
    r"|TypeError: .*(?:subscriptable|indices must be|not iterable|unsupported operand|not supported between"
    r"|concatenate|has no len\(\)|unhashable|required positional|must be .*, not).*",
    re.DOTALL,
)


class Lately:
    """The last reply of each of a few tools."""

    def __init__(self) -> None:
        self._replies: dict[str, Value] = {}
        self._texts: dict[str, str] = {}

    def saw(self, tool: str, reply: Reply) -> None:
        """A reply went to the program."""
        if reply.error is not None:
            return
        self._replies.pop(tool, None)
        self._texts.pop(tool, None)
        if (reply.size_bytes or 0) > _HELD_BYTES:
            self._replies[tool], self._texts[tool] = None, shape_text(reply.value)
        else:
            self._replies[tool] = reply.value
        if len(self._replies) > _MOST_TOOLS:
            oldest = next(iter(self._replies))
            del self._replies[oldest]
            self._texts.pop(oldest, None)

    def shapes(self, ended: Ended, stdout: str, text: str, specs: Sequence[ToolSpec]) -> tuple[str, ...]:
        """What helps to write the next program: nothing where this one did what it should."""
        if ended.status == "failed":
            return self._misread(ended.problem, text, specs)
        is_quiet = ended.status == "finished" and ended.value is None and not stdout.strip()
        return tuple(map(self._line, list(self._replies)[-_MOST_TOLD:])) if is_quiet else ()

    def _misread(self, problem: Problem | None, text: str, specs: Sequence[ToolSpec]) -> tuple[str, ...]:
        """The shapes of the replies that the line which failed worked on."""
        found = _MISREAD.fullmatch(problem.message) if problem is not None and self._replies else None
        if found is None or problem is None or problem.line is None:
            return ()
        names = {name: spec for spec in specs for name in (spec.python_name, *spec.aliases, spec.short_name) if name}
        at = (found["key"] or found["attribute"] or "").strip("'\"")
        behind = [tool for tool in tools_behind(text, problem.line, names, at=at) if tool in self._replies]
        return tuple(self._line(tool) for tool in behind[:_MOST_TOLD])

    def _line(self, tool: str) -> str:
        return f"{tool} returned {self._texts.get(tool) or shape_text(self._replies[tool])}"
