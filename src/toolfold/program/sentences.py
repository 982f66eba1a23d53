"""A description as its sentences, each on one line, and what several descriptions begin with alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from toolfold.program.words import one_line

LONGEST_WORDS: Final = 1_200
"""Of one description; `help` and a search in full detail have all of it."""
_END: Final = re.compile(r"(?<=[.!?:])\s+(?=[\"'`(\[A-Z0-9])")
_ABBREVIATIONS: Final = ("e.g.", "i.e.", "etc.", "vs.", "Dr.", "No.", "cf.")
_SHORTEST_SHARED: Final = 25


def sentences_of(description: str) -> tuple[str, ...]:
    """In order; a heading that ends in a colon is one of its own."""
    sentences: list[str] = []
    for part in _END.split(one_line(description, LONGEST_WORDS)):
        if sentences and sentences[-1].endswith(_ABBREVIATIONS):
            sentences[-1] += f" {part}"
        elif part:
            sentences.append(part)
    return tuple(sentences)


def first_of(sentences: Sequence[str]) -> str:
    """The first that says something; a heading is followed by what it announces."""
    if not sentences:
        return ""
    return " ".join(sentences[:2]) if sentences[0].endswith(":") else sentences[0]


def shared_start(descriptions: Sequence[Sequence[str]]) -> int:
    """How many sentences all of them begin with, where it saves something to say those once."""
    if len(descriptions) < 2:
        return 0
    count = 0
    for together in zip(*descriptions, strict=False):
        if len(set(together)) > 1:
            break
        count += 1
    return count if sum(map(len, descriptions[0][:count])) >= _SHORTEST_SHARED else 0
