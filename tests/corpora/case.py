"""A program of a corpus, and how one run of it ended."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    corpus: str
    name: str
    text: str
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Input schemas by name; each tool answers with its name and its arguments."""
    package: str = ""
    """What relative imports start from; only for texts of libraries."""
    seconds: float = 10.0
    has_tests: bool = False
    """It prints one line for each of its tests, so that each is judged for itself."""

    @property
    def key(self) -> str:
        """The same for programs that are the same."""
        material = f"{self.text}\0{sorted(self.tools)}\0{self.package}"
        return hashlib.sha256(material.encode("utf-8", "surrogatepass")).hexdigest()[:20]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What a run printed, and `finished`, `rejected` or the name of the exception that ended it."""

    stdout: str
    ending: str
    words: str = ""
    """What the exception or the problem says."""
    kind: str = ""
    """The kind of the problem, where it is ours."""
    did: tuple[tuple[str, str, str], ...] = ()
    """What CPython saw the program ask of the machine: the class, the test that was running, and what it was."""
