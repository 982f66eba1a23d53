"""Tool search by meaning, beside search by words, where a host has an embedder. Nothing here needs one."""

from __future__ import annotations

import logging
import math
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import mul
from threading import Lock
from typing import Final, NamedTuple, Protocol

from toolfold.tools.search_vocabulary import ToolDocument, meaning

_RANK_OFFSET: Final = 5
"""Of reciprocal rank fusion: the larger, the less the first places count."""
_LEAST_NEARNESS: Final = 0.42
"""Of an answer, from 0, as near as other tools are, to 1, the same; that holds for embedders of any scale."""
_MOST_TEXTS: Final = 20_000
_MOST_ROWS: Final = 16
_log: Final = logging.getLogger("toolfold.tools")


class Embedder(Protocol):
    """Texts in, one vector each out, all of one length. Called with many tools once, then with one question at a time.

    May be called in another thread. One that raises is logged, and the search goes by words alone.
    Of the package `fastembed`, for example: `lambda texts: list(TextEmbedding().embed(texts))`.
    """

    def __call__(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]: ...


class NearestTools(NamedTuple):
    """The tools that are nearest to a question, by their places, nearest first."""

    order: list[int]
    is_answer: bool
    """The nearest one stands out far enough."""


class EmbeddingCache:
    """What texts of tools mean to one embedder, which is asked for each text once; shared by many indexes."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: OrderedDict[str, array[float]] = OrderedDict()
        self._rows: OrderedDict[int, tuple[Sequence[ToolDocument], list[array[float]]]] = OrderedDict()
        """Of the last indexes, by the identity of their documents."""
        self._lock = Lock()

    def near(self, query: str, documents: Sequence[ToolDocument], most: int) -> NearestTools | None:
        """The tools that are nearest to a question; `None` where the embedder fails."""
        try:
            question = self._embedded([query])[0]
            rows = self._of(documents)
            nearness = [sum(map(mul, question, row)) for row in rows]
        # Whatever a stranger's embedder raises: words find tools, too.
        except Exception as error:  # noqa: BLE001
            _log.warning(
                "the embedder failed, so tools are searched by words only: %s: %s", type(error).__name__, error
            )
            return None
        return _near(nearness, most)

    def _of(self, documents: Sequence[ToolDocument]) -> list[array[float]]:
        with self._lock:
            entry = self._rows.get(id(documents))
            if entry is None:
                entry = self._rows[id(documents)] = (
                    documents,
                    self._vectors_of([meaning(document.spec) for document in documents]),
                )
                if len(self._rows) > _MOST_ROWS:
                    self._rows.popitem(last=False)
            return entry[1]

    def _vectors_of(self, texts: Sequence[str]) -> list[array[float]]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._embedded(new), strict=True))
        rows = [self._vectors[text] for text in texts]
        while len(self._vectors) > max(_MOST_TEXTS, 2 * len(texts)):
            self._vectors.popitem(last=False)
        return rows

    def _embedded(self, texts: Sequence[str]) -> list[array[float]]:
        vectors = [_unit(vector) for vector in self._embedder(texts)]
        if len(vectors) != len(texts):
            raise ValueError(f"it returned {len(vectors)} vectors for {len(texts)} texts")
        return vectors


def fuse_rankings(rankings: Iterable[tuple[Sequence[int], float]]) -> dict[int, float]:
    """One score from several orders with their weights, by reciprocal rank: the top of any is near the top."""
    scores: dict[int, float] = {}
    for ranking, weight in rankings:
        for rank, at in enumerate(ranking):
            scores[at] = scores.get(at, 0.0) + weight / (_RANK_OFFSET + rank)
    return scores


def _near(nearness: Sequence[float], most: int) -> NearestTools:
    order = sorted(range(len(nearness)), key=nearness.__getitem__, reverse=True)
    if not order:
        return NearestTools([], is_answer=False)
    usual = sum(nearness[at] for at in order[1:]) / max(1, len(order) - 1)

    def share(at: int) -> float:
        return (nearness[at] - usual) / max(1e-9, 1 - usual)

    best = share(order[0])
    # What is not half as near as the nearest one only fills the list.
    return NearestTools([at for at in order[:most] if share(at) >= best / 2], is_answer=best >= _LEAST_NEARNESS)


def _unit(vector: Sequence[float]) -> array[float]:
    length = math.sqrt(sum(component * component for component in vector)) or 1.0
    return array("f", (component / length for component in vector))
