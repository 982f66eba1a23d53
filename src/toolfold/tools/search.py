"""Tool search by words. Local and without a model: an answer takes about a millisecond.

BM25 over three fields, the name, the description, and the words of arguments and replies, written by hand: the
libraries that do it need numpy, rank documents of one field, or hold an index on disk. What a word counts in a tool is
worked out when the index is made, so that a search only adds up.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import re
from array import array
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from heapq import nlargest
from operator import mul
from threading import Lock
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from toolfold.models import Json, ToolSpec, Value
from toolfold.prompts.python_stubs import first_line, prompt_text
from toolfold.tools.search_vocabulary import (
    SYNONYMS,
    ToolDocument,
    Vocabulary,
    WordMatch,
    argument_words,
    document,
    meaning,
    query_weights,
    sentences,
)
from toolfold.tools.tool import CallContext, Tool

# ----------------------------------------------------------------------------------------------------
# Tool search by meaning, beside search by words, where a host has an embedder. Nothing here needs one.

_RANK_OFFSET: Final = 5
"""Constant of reciprocal rank fusion: the larger, the less the first places count."""
_LEAST_NEARNESS: Final = 0.42
"""Threshold for an answer, from 0 (as near as other tools) to 1 (the same), whatever the embedder's scale."""
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
    """Embeddings of tool texts, each computed once; shared by many indexes."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: OrderedDict[str, array[float]] = OrderedDict()
        self._rows: OrderedDict[int, tuple[Sequence[ToolDocument], list[array[float]]]] = OrderedDict()
        """Vectors of recent indexes, by the identity of their documents."""
        self._lock = Lock()

    def near(self, query: str, documents: Sequence[ToolDocument], most: int) -> NearestTools | None:
        """The tools that are nearest to a question; `None` where the embedder fails."""
        try:
            question = self._embedded([query])[0]
            rows = self._of(documents)
            nearness = [sum(map(mul, question, row)) for row in rows]
        # Whatever a stranger's embedder raises: words find tools, too.
        except Exception as error:  # noqa: BLE001
            kind = type(error).__name__
            _log.warning("the embedder failed, so tools are searched by words only: %s: %s", kind, error)
            return None
        return _near(nearness, most)

    def _of(self, documents: Sequence[ToolDocument]) -> list[array[float]]:
        with self._lock:
            entry = self._rows.get(id(documents))
            if entry is None:
                vectors = self._vectors_of([meaning(document.spec) for document in documents])
                entry = self._rows[id(documents)] = (documents, vectors)
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


Detail: TypeAlias = Literal["name", "signature", "full"]

DEFAULT_LIMIT: Final = 8
MOST_HITS: Final = 100
LONGEST_QUERY: Final = 2000

_ASKED_NAME_WEIGHT: Final = 0.35
"""Weight of a name that is in the question as a whole, in units of the rarest word."""
_USED_WEIGHT: Final = 0.03
"""Bonus of the most frequent tool, as a share of its score."""
_MOST_RANKED: Final = 60
_SEVERAL_SENTENCES: Final = 3
_FIRST_PLACES: Final = 3
"""For the best tools of a question of several sentences; then the best of each sentence."""
_FLOOR_FROM_TOOLS: Final = 30
"""Among fewer tools a weak match is worth showing."""
_JUDGED: Final = 5
"""Number of best tools of which one must be an answer."""
_LONG_QUESTION_WORDS: Final = 3
_ENOUGH_WORDS: Final = 2
_ENOUGH_SHARE: Final = 0.6
_LEAST_SCORE: Final = 0.9
"""Threshold for a short question's best tool, in units of the rarest word."""
_MOST_FUSED: Final = 50
_MOST_DOMAINS: Final = 3
_WORDS_WEIGHT: Final = 2.0
"""Weight of the ranking by words beside that of an embedder."""
_BETWEEN_WORDS: Final = re.compile(r"[-\s./]+")
_NO_CONTEXT: Final = CallContext()


class Hit(NamedTuple):
    """A tool that was found, and how well it fits; scores compare within one search only."""

    spec: ToolSpec
    score: float


class Index:
    """The words of many tools, made once for many searches.

    Args:
        specs: The tools.
        before: An index from which tools that are the same are taken over.
        uses: How often each tool was called, by name; decides between tools that fit about as well.
        embedder: Ranks by meaning beside the words, if there is one; an `EmbeddingCache` is shared among indexes.
        with_floor: A question that no tool answers finds nothing; else what comes nearest, however far that is.
    """

    def __init__(
        self, specs: Iterable[ToolSpec], *, before: Index | None = None, uses: Mapping[str, int] | None = None,
        embedder: Embedder | EmbeddingCache | None = None, with_floor: bool = True,
    ) -> None:  # fmt: skip
        previous_documents = {} if before is None else {entry.spec.name: entry for entry in before._documents}
        self._documents: list[ToolDocument] = [document(spec, previous_documents.get(spec.name)) for spec in specs]
        self._uses = uses or {}
        self._embeddings = _embedding_cache(embedder)
        self._with_floor = with_floor
        self._by_name: dict[str, list[int]] = {}
        for at, entry in enumerate(self._documents):
            for name in _spellings(entry.spec):
                self._by_name.setdefault(name, []).append(at)
        self._words = Vocabulary(self._documents)

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which they were given."""
        return tuple(entry.spec for entry in self._documents)

    def updated(self, specs: Iterable[ToolSpec], *, uses: Mapping[str, int] | None = None) -> Index:
        """An index of these tools; those that are in this one already are not read again."""
        uses = self._uses if uses is None else uses
        return Index(specs, before=self, uses=uses, embedder=self._embeddings, with_floor=self._with_floor)

    def with_embedder(self, embedder: Embedder | EmbeddingCache | None) -> Index:
        """The same tools, ranked by meaning, too; this one where there is no embedder."""
        if embedder is None:
            return self
        index = copy.copy(self)
        index._embeddings = _embedding_cache(embedder)
        return index

    def search(self, query: str, limit: int = DEFAULT_LIMIT) -> list[Hit]:
        """The tools that fit best, best first, or none if nothing fits; for an empty query the first ones of all."""
        query = query[:LONGEST_QUERY].strip()
        if not query:
            return [Hit(entry.spec, 0.0) for entry in self._documents[:limit]]
        scores, is_answer = self._scores(query)
        near = None
        # Who asks for a name means it, whatever else is near.
        if self._embeddings is not None and _spelling(query) not in self._by_name:
            near = self._embeddings.near(query, self._documents, _MOST_FUSED)
        if not is_answer and not (near is not None and near.is_answer):
            return []
        scores = self._ranked(query, scores, limit)
        if near is not None:
            scores = fuse_rankings([(self._best(scores, _MOST_FUSED), _WORDS_WEIGHT), (near.order, 1.0)])
        return [Hit(self._documents[at].spec, scores[at]) for at in self._best(scores, limit)]

    async def search_aside(self, query: str, limit: int = DEFAULT_LIMIT) -> list[Hit]:
        """The same, in another thread where there is an embedder, which may take long."""
        if self._embeddings is None:
            return self.search(query, limit)
        return await asyncio.to_thread(self.search, query, limit)

    def domains_near(self, query: str) -> list[str]:
        """Domains of the tools that come nearest, for a question that none of them answers."""
        scores, _ = self._scores(query[:LONGEST_QUERY])
        near = (self._documents[at].spec.domain for at in self._best(scores, _MOST_FUSED))
        return list(dict.fromkeys(domain for domain in near if domain))[:_MOST_DOMAINS]

    def _best(self, scores: Mapping[int, float], limit: int) -> list[int]:
        """Places of the best tools; among similar scores, frequent tools come first."""
        most = max(self._uses.values(), default=0) or 1

        def worth(at: int) -> tuple[float, int]:
            used = self._uses.get(self._documents[at].spec.name, 0) / most
            return scores[at] * (1 + _USED_WEIGHT * used), -at

        return nlargest(limit, scores, key=worth if self._uses else lambda at: (scores[at], -at))

    def _ranked(self, query: str, scores: Mapping[int, float], limit: int) -> dict[int, float]:
        """The tools that may be shown, with what only shows beside the others."""
        query_words = query_weights(query)
        same = {other for word in query_words for other in SYNONYMS.get(word, ())}
        most = _ASKED_NAME_WEIGHT * self._words.most
        ranked = {
            at: scores[at] + most * self._name_share(self._documents[at].name, query_words, same)
            for at in self._best(scores, max(limit, _MOST_RANKED))
        }
        parts = sentences(query)
        if len(parts) >= _SEVERAL_SENTENCES:
            self._lift_best_of_each(parts, ranked)
        return ranked

    def _name_share(self, name: Iterable[str], query_words: Container[str], same: Container[str]) -> float:
        """Share of a name that is in the question: a tool with a longer name does something else."""
        rarities = {word: self._words.rarity(word) for word in name if len(word) > 1}
        had = sum(rarity * (1.0 if word in query_words else 0.5 * (word in same)) for word, rarity in rarities.items())
        return had / (sum(rarities.values()) or 1.0)

    def _lift_best_of_each(self, parts: Sequence[str], ranked: dict[int, float]) -> None:
        """Gives the best tool of each sentence a place: several wishes in one question have a tool each."""
        best: dict[int, float] = {}
        for scores, _ in map(self._scores, parts):
            near = {at: scores[at] + 0.3 * score for at, score in ranked.items() if at in scores}
            if near:
                at = max(near, key=lambda at: (near[at], -at))
                best[at] = max(best.get(at, 0.0), scores[at])
        place = nlargest(_FIRST_PLACES, ranked.values())[-1]
        # Above the last of the first places, because tools that are alike may all have its score.
        for rank, at in enumerate(sorted(best, key=best.__getitem__), 1):
            ranked[at] = max(ranked[at], place * (1 + rank / 1000))

    def _scores(self, query: str) -> tuple[dict[int, float], bool]:
        """Score of each tool for a question, and whether any of them is an answer."""
        weights = query_weights(query)
        scores: dict[int, float] = {}
        matches: list[list[WordMatch]] = []
        most = 0.0
        for word, weight in weights.items():
            most += weight * self._words.rarity(word)
            matches.append(self._words.matches_for(word, weights))
            self._words.add(matches[-1], weight, scores)
        scores.update(dict.fromkeys(self._by_name.get(_spelling(query), ()), math.inf))
        own = sum(weight == 1.0 for weight in weights.values())
        is_answer = self._is_answered(scores, matches, most, own)
        for words in argument_words(query):
            self._words.add_value(words, scores)
        return scores, is_answer

    def _is_answered(
        self, scores: Mapping[int, float], matches: Sequence[Sequence[WordMatch]], most: float, own: int
    ) -> bool:
        """Whether a tool shares more with a long question than one word, which any text may do by chance."""
        if not scores or not self._with_floor or len(self) < _FLOOR_FROM_TOOLS:
            return bool(scores)
        best = nlargest(_JUDGED, scores, key=scores.__getitem__)
        is_strong = scores[best[0]] >= _LEAST_SCORE * self._words.most
        if own <= 1 or (own < _LONG_QUESTION_WORDS and is_strong):
            return True
        return any(scores[at] >= _ENOUGH_SHARE * most or self._words_in(at, matches) >= _ENOUGH_WORDS for at in best)

    def _words_in(self, at: int, matches: Sequence[Sequence[WordMatch]]) -> float:
        """Number of the question's words that a tool has; a synonym counts half."""
        return sum(
            max((match.words for match in words if self._words.has(at, match.word)), default=0.0) for words in matches
        )


def _spelling(name: str) -> str:
    """A name whatever stands between its words, and in whichever case."""
    return _BETWEEN_WORDS.sub("_", name.casefold())


def _spellings(spec: ToolSpec) -> set[str]:
    """Names by which a tool is asked for; that of a server's tool also without the prefix of the server."""
    names = {spec.name, spec.python_name, spec.short_name, *spec.aliases}
    if spec.domain:
        names |= {name.rpartition(mark)[2] for name in (spec.name, *spec.aliases) for mark in ("__", ".")}
    return {_spelling(name) for name in names if name}


def _embedding_cache(embedder: Embedder | EmbeddingCache | None) -> EmbeddingCache | None:
    return embedder if embedder is None or isinstance(embedder, EmbeddingCache) else EmbeddingCache(embedder)


def describe(spec: ToolSpec, detail: Detail = "signature") -> dict[str, Json]:
    """A tool for a model or program that looks for one; `name` is what a program calls it by."""
    description: dict[str, Json] = {"name": spec.python_name, "description": first_line(spec)}
    if spec.domain:
        description["domain"] = spec.domain
    if detail != "name":
        description["signature"] = prompt_text([spec])
    if detail == "full":
        description["tool"] = spec.name
        description["input_schema"] = dict(spec.input_schema)
        description["output_schema"] = None if spec.output_schema is None else dict(spec.output_schema)
        description["read_only"], description["destructive"] = spec.read_only, spec.destructive
        description["source"] = spec.source
    return description


def search_tool(index_source: Callable[[str], Index]) -> Tool:
    """The tool `search_tools`; `index_source` gives a tenant's index as it is at the time of a call."""

    async def call(arguments: Mapping[str, Value], context: CallContext = _NO_CONTEXT) -> list[dict[str, Json]]:
        index = index_source(context.tenant)
        if context.learned is not None:
            index = await context.learned(index, context.tenant)
        if context.outside:
            index = index.updated([*index.specs, *context.outside])
        hits = await index.search_aside(arguments["query"], arguments.get("limit", DEFAULT_LIMIT))
        return [describe(hit.spec, arguments.get("detail", "signature")) for hit in hits]

    return Tool(spec=SEARCH_SPEC, call=call, call_within=call)


SEARCH_SPEC: Final = ToolSpec(
    name="search_tools",
    python_name="search_tools",
    description="Find tools by what they do. Call a tool that was found as `tools.<name>`, "
    "or with `getattr(tools, name)` where the name is in a variable.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What is needed, in a few words, or a part of a name."},
            "detail": {
                "enum": ["name", "signature", "full"],
                "default": "signature",
                "description": "How much of each tool: its first line, also its signature, also its schemas.",
            },
            "limit": {"type": "integer", "default": DEFAULT_LIMIT, "minimum": 1, "maximum": MOST_HITS},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "array",
        "items": {
            "type": "object",
            "title": "FoundTool",
            "properties": {
                "name": {"type": "string"}, "description": {"type": "string"}, "domain": {"type": "string"},
                "signature": {"type": "string"},
            },
            "required": ["name", "description"],
            "additionalProperties": True,
        },
    },
    examples=({"query": "expenses of a user", "limit": 3},),
    read_only=True,
    source="toolfold",
)  # fmt: skip
