"""The words of many tools: which tools have a word, how much it says there, and which words stand for it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from toolfold.tools.search_documents import Document
from toolfold.tools.search_synonyms import SYNONYMS
from toolfold.tools.search_words import family

_NAME_WEIGHT: Final = 3.0
_ARGUMENT_WEIGHT: Final = 1.2
_SATURATION: Final = 1.2
_LENGTH_MATTERS: Final = 0.45
_MISSPELT_WEIGHT: Final = 0.7
_SHORTEST_MISSPELT: Final = 4
_SYNONYM_WEIGHT: Final = 0.35
_FAMILY_WEIGHT: Final = 0.5
_SHORTEST_OF_A_FAMILY: Final = 5
_OTHER_COUNT: Final = 0.5
_VALUE_WEIGHT: Final = 0.4

# Two flat lists for each word: half a million pairs would keep the garbage collector busy.
_Entries: TypeAlias = dict[str, tuple[list[int], list[float]]]


class Known(NamedTuple):
    """A word of the vocabulary that stands for one of a question."""

    word: str
    certainty: float
    words: float
    """How much of a word it counts for."""


class Vocabulary:
    """The words of tools, which are called by their places."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._entries = _entries(documents)

    def rarity(self, word: str) -> float:
        """How much it says of a tool that it has this word; most is said by one that no tool has."""
        having, tools = len(self._entries.get(word, ((),))[0]), len(self._documents)
        return math.log(1 + (tools - having + 0.5) / (having + 0.5))

    @cached_property
    def most(self) -> float:
        """The rarity of a word that no tool has."""
        return self.rarity("")

    def has(self, at: int, word: str) -> bool:
        """Whether a tool has a word of the vocabulary."""
        tools = self._entries[word][0]
        place = bisect_left(tools, at)
        return place < len(tools) and tools[place] == at

    def meant_by(self, word: str, weights: Mapping[str, float]) -> list[Known]:
        """The word itself, or those in names that it is probably a slip of; then others for the same thing.

        `weights` has the words of the whole question: they stand for themselves.
        """
        known: list[Known] = []
        if word in self._entries:
            known.append(Known(word, 1.0, 1.0))
        elif len(word) >= _SHORTEST_MISSPELT:
            near = {one for part in _shortened(word) for one in self._slips.get(part, ()) if one[0] == word[0]}
            known += [Known(one, _MISSPELT_WEIGHT / len(near), 1.0) for one in sorted(near)]
        others = dict.fromkeys(sorted(SYNONYMS.get(word, ())), _SYNONYM_WEIGHT)
        if len(word) >= _SHORTEST_OF_A_FAMILY:
            others |= dict.fromkeys(self._families.get(family(word), ()), _FAMILY_WEIGHT)
        taken = {one.word for one in known}
        for other, certainty in others.items():
            if other not in weights and other not in taken and self._is_worth_it(other):
                known.append(Known(other, certainty, _OTHER_COUNT))
        return known

    def _is_worth_it(self, word: str) -> bool:
        """A word that a tenth of all tools have says little and takes long."""
        return word in self._entries and len(self._entries[word][0]) * 10 < len(self._documents) + 100

    def add(self, words: Sequence[Known], weight: float, scores: dict[int, float]) -> None:
        """One word of a question; where several stand for it, the one that is worth most in a tool."""
        best: dict[int, float] = scores if len(words) == 1 else {}
        for known in words:
            tools, shares = self._entries[known.word]
            worth = weight * known.certainty * self.rarity(known.word)
            if best is scores:
                for at, share in zip(tools, shares, strict=True):
                    scores[at] = scores.get(at, 0.0) + share * worth
                return
            for at, share in zip(tools, shares, strict=True):
                if share * worth > best.get(at, 0.0):
                    best[at] = share * worth
        for at, score in best.items():
            scores[at] = scores.get(at, 0.0) + score

    def add_value(self, words: Sequence[str], scores: dict[int, float]) -> None:
        """A value in a question, by the words of arguments that take it; it alone finds no tool."""
        best: dict[int, float] = {}
        for word in words:
            tools, shares = self._entries.get(word, ((), ()))
            worth = _VALUE_WEIGHT * self.rarity(word)
            for at, share in zip(tools, shares, strict=True):
                if at in scores and share * worth > best.get(at, 0.0):
                    best[at] = share * worth
        for at, score in best.items():
            scores[at] += score

    @cached_property
    def _slips(self) -> dict[str, list[str]]:
        """Words in names by what is left of them without one letter; two slips of one word share a part."""
        slips: dict[str, list[str]] = {}
        for word in dict.fromkeys(word for one in self._documents for word in one.name):
            if len(word) >= _SHORTEST_MISSPELT:
                for part in _shortened(word):
                    slips.setdefault(part, []).append(word)
        return slips

    @cached_property
    def _families(self) -> dict[str, list[str]]:
        """Words that are made from the same one."""
        families: dict[str, list[str]] = {}
        for word in self._entries:
            if len(word) >= _SHORTEST_OF_A_FAMILY:
                families.setdefault(family(word), []).append(word)
        return families


def _entries(documents: Sequence[Document]) -> _Entries:
    """The tools that have a word, and how much it stands out in each."""
    fields = [(one.name, one.text, one.arguments) for one in documents]
    lengths = [_average([field.total() for field in column]) for column in zip(*fields, strict=True)]
    entries: _Entries = {}
    for at, columns in enumerate(fields):
        shares: dict[str, float] = {}
        for field, weight, length in zip(columns, (_NAME_WEIGHT, 1.0, _ARGUMENT_WEIGHT), lengths, strict=True):
            normal = weight / _normal(field.total(), length)
            for word, count in field.items():
                shares[word] = shares.get(word, 0.0) + count * normal
        for word, share in shares.items():
            if word not in entries:
                entries[word] = ([], [])
            tools, scores = entries[word]
            tools.append(at)
            scores.append(share * (_SATURATION + 1) / (share + _SATURATION))
    return entries


def _normal(length: int, average: float) -> float:
    return 1 - _LENGTH_MATTERS + _LENGTH_MATTERS * length / average


def _average(lengths: list[int]) -> float:
    return max(1.0, sum(lengths) / max(1, len(lengths)))


def _shortened(word: str) -> set[str]:
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}
