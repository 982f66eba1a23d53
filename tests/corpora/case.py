"""A program of a corpus, and how one run of it ended."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What a run printed, and `finished`, `rejected` or the name of the exception that ended it."""

    stdout: str
    ending: str
    words: str = ""
    """What the exception or the problem says."""
