"""A description as its sentences, each on one line, and what several descriptions have in common."""

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


def shared_sentences(descriptions: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Those that all of them have, in order, where it saves something to say them once."""
    if len(descriptions) < 2:
        return ()
    everywhere = set(descriptions[0]).intersection(*descriptions[1:])
    shared = tuple(one for one in dict.fromkeys(descriptions[0]) if one in everywhere)
    return shared if sum(map(len, shared)) >= _SHORTEST_SHARED else ()
