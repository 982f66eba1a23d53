"""Search vocabulary: stems, synonyms and values in questions, and how much each word says of a tool."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from toolfold.models import Json, ToolSpec

# ----------------------------------------------------------------------------------------------------
# Text to search words: names split, endings cut, words without meaning left out.

_RUN: Final = re.compile(r"[^\W_]+")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENDS_A_SENTENCE: Final = re.compile(r"[.?!:;\n]\s*$")
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.?!;\n])\s+")
_FEWEST_WORDS: Final = 3
_VOWEL: Final = re.compile(r"[aeiouy]")
_LONGEST_WORD: Final = 100
_NO_SPACES_FROM: Final = "\u2e80"
"""From here on are the scripts that put no space between words."""


class _Words(msgspec.Struct):
    """The word lists beside this module."""

    stop_words: dict[str, list[str]]
    """By where they come from; each text has several."""
    short_forms: dict[str, str]
    """In names of tools and arguments; none that is as often short for another word, as `temp` is."""
    synonyms: list[str]
    """Words that people use for the same thing."""


_WORDS: Final = msgspec.json.decode(Path(__file__).with_name("search_words.json").read_bytes(), type=_Words)
STOP_WORDS: Final = frozenset(word for texts in _WORDS.stop_words.values() for text in texts for word in text.split())

# A word with a capital within a sentence is mostly a name, and one in quotes is quoted: a value for an argument, not
# what is wanted.
_WEIGHT_OF_A_VALUE: Final = 0.7
_QUOTED: Final = re.compile(r"(?<!\w)'[^'\n]{1,200}'(?!\w)|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|`[^`\n]{1,200}`")
_MOST_QUOTED: Final = 0.7
"""Share of the question: one that is quoted as a whole is no value."""

_SUFFIXES: Final = (
    "ation", "ally", "ance", "ator", "ence", "ical", "ment", "ness", "ship", "abl", "ant", "ari", "ent", "ful", "ion",
    "ist", "iti", "ive", "ori", "al", "er", "ic", "li", "or", "i",
)  # fmt: skip
"""Derivational suffixes as `stem` leaves them; the longest first."""
_SHORTEST_ROOT: Final = 4


def words_of(text: str) -> Iterator[str]:
    """The search words of a tool's text, in order."""
    return chain.from_iterable(map(_words_in, _RUN.findall(text)))


def parts_of(name: str) -> str:
    """A name as plain words: `getUser_id` as `get user id`."""
    name = name[:_LONGEST_WORD]
    return " ".join(part.lower() for part in _PART.findall(name)) if name.isascii() else name


def query_weights(query: str) -> dict[str, float]:
    """The search words of a question, and how much each says of what is wanted.

    Numbers and single letters are values, not wishes, and count nothing.
    """
    weights: dict[str, float] = {}
    is_shouted = query.isupper()
    quoted = _quoted(query)
    for match in _RUN.finditer(query):
        run, start = match[0], match.start()
        is_name = run[0].isupper() and start > 0 and not _ENDS_A_SENTENCE.search(query[max(0, start - 4) : start])
        is_value = (is_name and not is_shouted) or any(begin <= start < end for begin, end in quoted)
        weight = _WEIGHT_OF_A_VALUE if is_value else 1.0
        for word in _words_in(run):
            if len(word) > 1 and not word.isdecimal():
                weights[word] = max(weight, weights.get(word, 0.0))
    return weights


def _quoted(query: str) -> list[tuple[int, int]]:
    spans = (match.span() for match in _QUOTED.finditer(query))
    return [(start, end) for start, end in spans if end - start < _MOST_QUOTED * len(query)]


def sentences(query: str) -> list[str]:
    """The sentences of a question that say enough to be asked alone."""
    return [part for part in _SENTENCE_ENDS.split(query) if len(query_weights(part)) >= _FEWEST_WORDS]


# Descriptions repeat each other's words, so that most are split and cut only once.
@lru_cache(maxsize=20_000)
def _words_in(run: str) -> tuple[str, ...]:
    run = run[:_LONGEST_WORD]
    if run.isascii():
        words = (part.lower() for part in _PART.findall(run))
        return tuple(stem(word) for word in words if word not in STOP_WORDS)
    if run >= _NO_SPACES_FROM:
        return tuple(run[at : at + 2] for at in range(max(1, len(run) - 1)))
    return (run.casefold(),)


def stem(word: str) -> str:
    """The word without the endings of plural and verb; light, because a search shows several tools anyway.

    A usual short form, such as `cmd`, is the word that it stands for.
    """
    word = _without_plural(word)
    word = _WORDS.short_forms.get(word, word)
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and _VOWEL.search(root):
            word = root[:-1] if root[-1] == root[-2] and root[-1] not in "lsz" else root
            break
    if len(word) > 4 and word[-1] == "e":
        return word[:-1]
    return f"{word[:-1]}i" if len(word) > 3 and word[-1] == "y" else word


@lru_cache(maxsize=20_000)
def family(word: str) -> str:
    """Common root of words with one origin: `discover` for `discoverer`."""
    for _ in range(2):
        suffix = next((end for end in _SUFFIXES if word.endswith(end) and len(word) - len(end) >= _SHORTEST_ROOT), "")
        word = word.removesuffix(suffix)
    return word


def _without_plural(word: str) -> str:
    if len(word) > 3 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word[-1] == "s" and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


# ----------------------------------------------------------------------------------------------------
# Words that people use for the same thing; a search takes one for another, at less than its full weight.


def _table() -> dict[str, frozenset[str]]:
    synonyms_by_word: dict[str, set[str]] = {}
    for line in _WORDS.synonyms:
        group = [stem(word) for word in line.split()]
        for word in group:
            synonyms_by_word.setdefault(word, set()).update(group)
    return {word: frozenset(synonyms - {word}) for word, synonyms in synonyms_by_word.items()}


SYNONYMS: Final[Mapping[str, frozenset[str]]] = _table()


# ----------------------------------------------------------------------------------------------------
# Values in a question, such as a date: they say which arguments a tool has that can take them.

_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATE: Final = (
    r"\b\d{4}[-./]\d{1,2}[-./]\d{1,2}\b|\b\d{1,2}[-./]\d{1,2}[-./]\d{2,4}\b"
    rf"|\b{_MONTH}\s\d|\d(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\btomorrow\b|\bnext\s(?:week|month)\b"
)
_TIME: Final = r"\b\d{1,2}(?::\d\d)?\s?[ap]\.?m\b|\b\d{1,2}:\d\d\b|\bnoon\b|\bo'clock\b"
_PLACE: Final = r"\b(?:[Aa]round|[Aa]t|[Ff]or|[Ff]rom|[Ii]n|[Nn]ear|[Tt]o)\s(?:the\s)?[A-Z][a-z]"

# Every repetition has a bound: a question is a stranger's text.
_KINDS: Final = tuple(
    (re.compile(pattern, flags), tuple(stem(word) for word in words.split()))
    for pattern, flags, words in (
        (_DATE, re.IGNORECASE, "date day"), (_TIME, re.IGNORECASE, "time hour"),
        (r"https?://|\bwww\.", re.IGNORECASE, "url link uri"), (r"\w@\w", 0, "email mail address"),
        (r"\d{1,3}\.\d{1,12}\W{1,3}(?:[NS]\W{1,2})?-?\d{1,3}\.\d", 0, "latitude coordinates"),
        (r"[$€£¥]\s?\d", 0, "amount price cost budget"), (_PLACE, 0, "city location place"),
    )
)  # fmt: skip


def argument_words(query: str) -> list[tuple[str, ...]]:
    """For each kind of value in a question, the search words of arguments that take it."""
    return [words for pattern, words in _KINDS if pattern.search(query)]


# ----------------------------------------------------------------------------------------------------
# A tool as the words by which it is found.

_LONGEST_TEXT: Final = 4000
_DEEPEST_ARGUMENT: Final = 4
_MOST_ARGUMENTS: Final = 200
_LONGEST_MEANING: Final = 600
_MOST_NAMED: Final = 30


@dataclass(frozen=True, slots=True)
class ToolDocument:
    """A tool as the words it has."""

    spec: ToolSpec
    name: Counter[str]
    text: Counter[str]
    arguments: Counter[str]
    """Also of what it was seen to return."""


def document(spec: ToolSpec, previous: ToolDocument | None) -> ToolDocument:
    """The words of a tool; those of `previous` where it is the same tool."""
    if previous is not None and previous.spec is spec:
        return previous
    name = Counter(words_of(spec.name[:_LONGEST_TEXT]))
    text = Counter(words_of(f"{spec.domain} {spec.description[:_LONGEST_TEXT]}"))
    arguments: Counter[str] = Counter()
    for argument in (*_argument_texts(spec.input_schema), *_argument_texts(spec.output_schema)):
        arguments.update(words_of(argument[:_LONGEST_TEXT]))
    return ToolDocument(spec, name, text, arguments)


def meaning(spec: ToolSpec) -> str:
    """A tool as one text for an embedder: it must not change with what the tool was seen to return."""
    properties = spec.input_schema.get("properties")
    names = list(properties)[:_MOST_NAMED] if isinstance(properties, Mapping) else []
    arguments = ", ".join(parts_of(str(name)) for name in names)
    return f"{parts_of(spec.name)}: {spec.description[:_LONGEST_MEANING]} {arguments}".rstrip()


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


class WordMatch(NamedTuple):
    """A word of the vocabulary that stands for one of a question."""

    word: str
    certainty: float
    words: float
    """Share of a word that it counts for."""


class Vocabulary:
    """The words of tools, which are called by their places."""

    def __init__(self, documents: Sequence[ToolDocument]) -> None:
        self._documents = documents
        self._entries = _entries(documents)

    def rarity(self, word: str) -> float:
        """Inverse document frequency; highest for a word that no tool has."""
        having, tools = len(self._entries.get(word, ((),))[0]), len(self._documents)
        return math.log(1 + (tools - having + 0.5) / (having + 0.5))

    @cached_property
    def most(self) -> float:
        """The rarity of a word that no tool has."""
        return self.rarity("")

    def has(self, at: int, word: str) -> bool:
        tools = self._entries[word][0]
        place = bisect_left(tools, at)
        return place < len(tools) and tools[place] == at

    def matches_for(self, word: str, weights: Mapping[str, float]) -> list[WordMatch]:
        """The word itself, or those in names that it is probably a slip of; then others for the same thing.

        `weights` has the words of the whole question: they stand for themselves.
        """
        matches: list[WordMatch] = []
        if word in self._entries:
            matches.append(WordMatch(word, 1.0, 1.0))
        elif len(word) >= _SHORTEST_MISSPELT:
            candidates = {candidate for part in _shortened(word) for candidate in self._slips.get(part, ())}
            near = sorted(candidate for candidate in candidates if candidate[0] == word[0])
            matches += [WordMatch(candidate, _MISSPELT_WEIGHT / len(near), 1.0) for candidate in near]
        related = dict.fromkeys(sorted(SYNONYMS.get(word, ())), _SYNONYM_WEIGHT)
        if len(word) >= _SHORTEST_OF_A_FAMILY:
            related |= dict.fromkeys(self._families.get(family(word), ()), _FAMILY_WEIGHT)
        matching_words = {candidate.word for candidate in matches}
        for other, certainty in related.items():
            if other not in weights and other not in matching_words and self._is_worth_it(other):
                matches.append(WordMatch(other, certainty, _OTHER_COUNT))
        return matches

    def _is_worth_it(self, word: str) -> bool:
        """A word that a tenth of all tools have says little and takes long."""
        return word in self._entries and len(self._entries[word][0]) * 10 < len(self._documents) + 100

    def add(self, words: Sequence[WordMatch], weight: float, scores: dict[int, float]) -> None:
        """One word of a question; where several stand for it, the one that is worth most in a tool."""
        if len(words) == 1:  # as most are: without a table of its own
            tools, shares = self._entries[words[0].word]
            worth = weight * words[0].certainty * self.rarity(words[0].word)
            for at, share in zip(tools, shares, strict=True):
                scores[at] = scores.get(at, 0.0) + share * worth
            return
        for at, score in self._best((match.word, weight * match.certainty) for match in words).items():
            scores[at] = scores.get(at, 0.0) + score

    def add_value(self, words: Sequence[str], scores: dict[int, float]) -> None:
        """A value in a question, by the words of arguments that take it; it alone finds no tool."""
        for at, score in self._best((word, _VALUE_WEIGHT) for word in words).items():
            if at in scores:
                scores[at] += score

    def _best(self, words: Iterable[tuple[str, float]]) -> dict[int, float]:
        """The most that each tool gets for one of these words with their weights."""
        best: dict[int, float] = {}
        for word, weight in words:
            tools, shares = self._entries.get(word, ((), ()))
            worth = weight * self.rarity(word)
            for at, share in zip(tools, shares, strict=True):
                if share * worth > best.get(at, 0.0):
                    best[at] = share * worth
        return best

    @cached_property
    def _slips(self) -> dict[str, list[str]]:
        """Words in names by what is left of them without one letter; two slips of one word share a part."""
        slips: dict[str, list[str]] = {}
        for word in dict.fromkeys(word for document in self._documents for word in document.name):
            if len(word) >= _SHORTEST_MISSPELT:
                for part in _shortened(word):
                    slips.setdefault(part, []).append(word)
        return slips

    @cached_property
    def _families(self) -> dict[str, list[str]]:
        families: dict[str, list[str]] = {}
        for word in self._entries:
            if len(word) >= _SHORTEST_OF_A_FAMILY:
                families.setdefault(family(word), []).append(word)
        return families


def _entries(documents: Sequence[ToolDocument]) -> _Entries:
    """The tools that have a word, and how much it stands out in each."""
    fields = [(document.name, document.text, document.arguments) for document in documents]
    lengths = [max(1.0, sum(field.total() for field in column) / len(column)) for column in zip(*fields, strict=True)]
    entries: _Entries = {}
    for at, columns in enumerate(fields):
        shares: dict[str, float] = {}
        for field, weight, length in zip(columns, (_NAME_WEIGHT, 1.0, _ARGUMENT_WEIGHT), lengths, strict=True):
            normal = weight / (1 - _LENGTH_MATTERS + _LENGTH_MATTERS * field.total() / length)
            for word, count in field.items():
                shares[word] = shares.get(word, 0.0) + count * normal
        for word, share in shares.items():
            if word not in entries:
                entries[word] = ([], [])
            tools, scores = entries[word]
            tools.append(at)
            scores.append(share * (_SATURATION + 1) / (share + _SATURATION))
    return entries


def _shortened(word: str) -> set[str]:
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}
