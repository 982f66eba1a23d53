"""Find tools by words. Local and without a model: an answer takes about a millisecond.

BM25 over two fields, the name and all other words, written by hand: the libraries that do it need
numpy, rank documents of one field, or hold an index on disk. What a word counts in a tool is worked
out when the index is made, so that a search only adds up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from typing import Final, Literal, NamedTuple, TypeAlias

from toolfold.models import Json, ToolSpec, Value
from toolfold.program.stub import first_line
from toolfold.program.stubs import prompt_text
from toolfold.tools.context import CallContext
from toolfold.tools.search_words import query_weights, words_of
from toolfold.tools.tool import Tool

Detail: TypeAlias = Literal["name", "signature", "full"]

DEFAULT_LIMIT: Final = 8
MOST_HITS: Final = 100
LONGEST_QUERY: Final = 2000

_NAME_WEIGHT: Final = 2.0
_SATURATION: Final = 1.6
_LENGTH_MATTERS: Final = 0.5
_MISSPELT_WEIGHT: Final = 0.7
_SHORTEST_MISSPELT: Final = 4
_LONGEST_TEXT: Final = 4000
_DEEPEST_ARGUMENT: Final = 4
_MOST_ARGUMENTS: Final = 200


class Hit(NamedTuple):
    """A tool that was found, and how well it fits; scores compare within one search only."""

    spec: ToolSpec
    score: float


@dataclass(frozen=True, slots=True)
class _Document:
    """A tool as the words it has."""

    spec: ToolSpec
    name: Counter[str]
    text: Counter[str]


class Index:
    """The words of many tools, made once for many searches."""

    def __init__(
        self, specs: Iterable[ToolSpec], *, before: Index | None = None, uses: Mapping[str, int] | None = None
    ) -> None:
        known = {} if before is None else {one.spec.name: one for one in before._documents}
        self._documents: list[_Document] = [_document(spec, known.get(spec.name)) for spec in specs]
        self._uses = uses or {}
        self._by_name = {
            name.casefold(): at
            for at, one in enumerate(self._documents)
            for name in (one.spec.name, one.spec.python_name, *one.spec.aliases)
        }
        self._entries = _entries(self._documents)

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which they were given."""
        return tuple(one.spec for one in self._documents)

    def updated(self, specs: Iterable[ToolSpec], *, uses: Mapping[str, int] | None = None) -> Index:
        """An index of these tools; those that are in this one already are not read again."""
        return Index(specs, before=self, uses=self._uses if uses is None else uses)

    def search(self, query: str, limit: int = DEFAULT_LIMIT) -> list[Hit]:
        """The tools that fit best, best first; for an empty query the first ones of all."""
        query = query[:LONGEST_QUERY].strip()
        if not query:
            return [Hit(one.spec, 0.0) for one in self._documents[:limit]]
        found: dict[int, float] = {}
        for word, weight in query_weights(query).items():
            for known, certainty in self._known_words(word):
                tools, shares = self._entries[known]
                worth = weight * certainty * _rarity(len(tools), len(self))
                for at, share in zip(tools, shares, strict=True):
                    found[at] = found.get(at, 0.0) + share * worth
        if (exact := self._by_name.get(query.casefold())) is not None:
            found[exact] = math.inf
        best = nlargest(limit, found.items(), key=lambda item: (item[1], -item[0]))
        return [Hit(self._documents[at].spec, score) for at, score in best]

    def _known_words(self, word: str) -> Iterator[tuple[str, float]]:
        """The word itself, or those in names that it is probably a slip of."""
        if word in self._entries:
            yield word, 1.0
        elif len(word) >= _SHORTEST_MISSPELT:
            near = {one for part in _shortened(word) for one in self._slips.get(part, ()) if one[0] == word[0]}
            yield from ((one, _MISSPELT_WEIGHT / len(near)) for one in sorted(near))

    @cached_property
    def _slips(self) -> dict[str, list[str]]:
        """Words in names by what is left of them without one letter; two slips of one word share a part."""
        slips: dict[str, list[str]] = {}
        for word in dict.fromkeys(word for one in self._documents for word in one.name):
            if len(word) >= _SHORTEST_MISSPELT:
                for part in _shortened(word):
                    slips.setdefault(part, []).append(word)
        return slips


def describe(spec: ToolSpec, detail: Detail = "signature") -> dict[str, Json]:
    """A tool for a model or program that looks for one; `name` is what a program calls it by."""
    shown: dict[str, Json] = {"name": spec.python_name, "description": first_line(spec)}
    if spec.domain:
        shown["domain"] = spec.domain
    if detail != "name":
        shown["signature"] = prompt_text([spec])
    if detail == "full":
        shown["tool"] = spec.name
        shown["input_schema"] = dict(spec.input_schema)
        shown["output_schema"] = None if spec.output_schema is None else dict(spec.output_schema)
        shown["read_only"], shown["destructive"] = spec.read_only, spec.destructive
        shown["source"] = spec.source
    return shown


def search_tool(index_source: Callable[[], Index]) -> Tool:
    """The tool `search_tools`; `index_source` gives the index as it is at the time of a call."""

    async def call(arguments: Mapping[str, Value]) -> list[dict[str, Json]]:
        return found(index_source(), arguments)

    async def call_within(arguments: Mapping[str, Value], context: CallContext) -> list[dict[str, Json]]:
        index = index_source()
        if context.learned is not None:
            index = await context.learned(index, context.tenant)
        return found(index.updated([*index.specs, *context.outside]) if context.outside else index, arguments)

    def found(index: Index, arguments: Mapping[str, Value]) -> list[dict[str, Json]]:
        hits = index.search(arguments["query"], arguments.get("limit", DEFAULT_LIMIT))
        return [describe(hit.spec, arguments.get("detail", "signature")) for hit in hits]

    return Tool(spec=SEARCH_SPEC, call=call, call_within=call_within)


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
                "name": {"type": "string"},
                "description": {"type": "string"},
                "domain": {"type": "string"},
                "signature": {"type": "string"},
            },
            "required": ["name", "description"],
            "additionalProperties": True,
        },
    },
    examples=({"query": "expenses of a user", "limit": 3},),
    read_only=True,
    source="toolfold",
)


def _document(spec: ToolSpec, known: _Document | None) -> _Document:
    if known is not None and known.spec is spec:
        return known
    name = Counter(words_of(spec.name[:_LONGEST_TEXT]))
    text = Counter(words_of(f"{spec.domain} {spec.description[:_LONGEST_TEXT]}"))
    for argument in _argument_texts(spec.input_schema):
        text.update(words_of(argument[:_LONGEST_TEXT]))
    return _Document(spec, name, text)


def _argument_texts(schema: Json, depth: int = 0) -> Iterator[str]:
    """Names, descriptions and choices of arguments, and of what is in them."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or depth > _DEEPEST_ARGUMENT:
        return
    for name, inner in list(properties.items())[:_MOST_ARGUMENTS]:
        yield str(name)
        if not isinstance(inner, Mapping):
            continue
        if isinstance(inner.get("description"), str):
            yield inner["description"]
        if isinstance(inner.get("enum"), list):
            yield " ".join(map(str, inner["enum"][:_MOST_ARGUMENTS]))
        yield from _argument_texts(inner, depth + 1)
        yield from _argument_texts(inner.get("items"), depth + 1)


# Two flat lists for each word: half a million pairs would keep the garbage collector busy.
_Entries: TypeAlias = dict[str, tuple[list[int], list[float]]]


def _entries(documents: list[_Document]) -> _Entries:
    """The tools that have a word, and how much it stands out in each."""
    name_length = _average([one.name.total() for one in documents])
    text_length = _average([one.text.total() for one in documents])
    entries: _Entries = {}
    for at, one in enumerate(documents):
        name_share = _NAME_WEIGHT / _normal(one.name.total(), name_length)
        text_share = 1.0 / _normal(one.text.total(), text_length)
        shares = {word: count * text_share for word, count in one.text.items()}
        for word, count in one.name.items():
            shares[word] = shares.get(word, 0.0) + count * name_share
        for word, share in shares.items():
            if word not in entries:
                entries[word] = ([], [])
            tools, scores = entries[word]
            tools.append(at)
            scores.append(share * (_SATURATION + 1) / (share + _SATURATION))
    return entries


def _rarity(having: int, all_tools: int) -> float:
    return math.log(1 + (all_tools - having + 0.5) / (having + 0.5))


def _normal(length: int, average: float) -> float:
    return 1 - _LENGTH_MATTERS + _LENGTH_MATTERS * length / average


def _average(lengths: list[int]) -> float:
    return max(1.0, sum(lengths) / max(1, len(lengths)))


def _shortened(word: str) -> set[str]:
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}
