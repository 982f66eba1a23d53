"""Search by meaning beside search by words, where a host has an embedder. Nothing here needs one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Final, Protocol

from toolfold.models import ToolSpec

_RANK_OFFSET: Final = 60
"""Of reciprocal rank fusion: the larger, the less the first places count."""
_LONGEST_TEXT: Final = 1000


class Embedder(Protocol):
    """Texts in, one vector each out, all of one length. Called with many tools once, then with one question at a time.

    Of the package `fastembed`, for example: `lambda texts: list(TextEmbedding().embed(texts))`.
    """

    def __call__(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]: ...


class Vectors:
    """The tools of one index, as an embedder sees them."""

    def __init__(self, embedder: Embedder, specs: Sequence[ToolSpec]) -> None:
        self._embedder = embedder
        texts = [f"{spec.name.replace('_', ' ')}: {spec.description[:_LONGEST_TEXT]}" for spec in specs]
        self._vectors = [_unit(vector) for vector in embedder(texts)] if texts else []

    def ranked(self, query: str, most: int) -> list[int]:
        """Places of the tools that are nearest in meaning, nearest first."""
        question = _unit(self._embedder([query])[0])
        nearness = [sum(map(mul, question, vector)) for vector in self._vectors]
        return sorted(range(len(nearness)), key=nearness.__getitem__, reverse=True)[:most]


def fused(rankings: Iterable[Sequence[int]]) -> dict[int, float]:
    """One score from several orders, by reciprocal rank: what is near the top of any is near the top."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, at in enumerate(ranking):
            scores[at] = scores.get(at, 0.0) + 1.0 / (_RANK_OFFSET + rank)
    return scores


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(one * one for one in vector)) or 1.0
    return [one / length for one in vector]
