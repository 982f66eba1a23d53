"""The tools of a program by every name it may call them; made once for many programs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from toolfold.models import ToolSpec
from toolfold.program.arguments import Signature
from toolfold_guest.reserved import RESERVED

_FEW: Final = 6
_CLOSE: Final = 0.7
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


class ToolIndex:
    """Names and modules of tools. Signatures are worked out when a program calls the tool."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.modules: dict[str, dict[str, ToolSpec]] = {"tools": {}}
        """What each importable module holds: `tools`, `tools.<domain>`."""
        self._signatures: dict[str, Signature] = {}
        flat = self.modules["tools"]
        for tool in tools:
            names = (tool.python_name, *tool.aliases)
            flat.update(dict.fromkeys(names, tool))
            if tool.domain:
                self.modules.setdefault(f"tools.{tool.domain}", {}).update(dict.fromkeys(names, tool))
        for tool in tools:
            if tool.short_name and tool.domain and tool.short_name not in flat:
                self.modules[f"tools.{tool.domain}"].setdefault(tool.short_name, tool)
        self.hyphenated: Mapping[str, ToolSpec] = {tool.name: tool for tool in tools if "-" in tool.name}
        """Tools whose own name is a subtraction to Python."""
        self.names: Mapping[str, ToolSpec] = {name: tool for name, tool in flat.items() if name not in RESERVED}
        """What can be called without a module in front."""
        self.hidden: Mapping[str, ToolSpec] = {name: flat[name] for name in flat.keys() & RESERVED}
        """Tools by a name that without a module in front is Python's or the guest's own."""

    def signature(self, tool: ToolSpec) -> Signature:
        """What the tool's schema says of its arguments."""
        found = self._signatures.get(tool.python_name)
        if found is None:
            found = self._signatures[tool.python_name] = Signature(tool)
        return found

    def some_names(self) -> str:
        """A few tools to choose from, for an error text."""
        few = ", ".join(name for name, _ in zip(self.names, range(_FEW), strict=False))
        return f"{few}, ..." if len(self.names) > _FEW else few

    def nearest(self, name: str) -> str | None:
        """The tool that `name` was probably meant to be."""
        return nearest(name, self.names)


def nearest(name: str, names: Collection[str]) -> str | None:
    """The likeliest of `names`: written otherwise, misspelt, or made of the same words."""
    plain = _plain(name)
    # Cheap filters first: there may be 10,000 names, and a ratio takes microseconds.
    letters, slack = set(plain), max(2, len(name) // 3)
    similar = []
    for other in names:
        if abs(len(other) - len(name)) <= slack and 2 * len(letters & set(other.lower())) >= len(letters):
            if _plain(other) == plain:
                return other
            similar.append(other)
    found = difflib.get_close_matches(name, similar, 1, _CLOSE)
    return found[0] if found else _same_words(name, names)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _same_words(name: str, names: Collection[str]) -> str | None:
    words = _words(name)
    best, most = None, 0
    for other in names:
        if any(word in other.lower() for word in words):
            shared = _words(other)
            if (shared <= words or words <= shared) and len(shared & words) > most:
                best, most = other, len(shared & words)
    return best


def _words(name: str) -> set[str]:
    """Words of three letters or more; shorter ones say nothing."""
    return {word.lower() for word in _WORD.findall(name[:200]) if len(word) > 2}
