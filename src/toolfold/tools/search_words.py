"""Text to search words: names split, endings cut, words without meaning left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

_RUN: Final = re.compile(r"[^\W_]+")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENDS_A_SENTENCE: Final = re.compile(r"[.?!:;\n]\s*$")
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.?!;\n])\s+")
_FEWEST_WORDS: Final = 3
_VOWEL: Final = re.compile(r"[aeiouy]")
_LONGEST_WORD: Final = 100
_NO_SPACES_FROM: Final = "\u2e80"
"""From here on are the scripts that put no space between words."""

STOP_WORDS: Final = frozenset({
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "could",
    "did", "do", "does", "for", "from", "give", "given", "had", "has", "have", "he", "help", "her", "him", "his",
    "how", "i", "if", "in", "into", "is", "it", "its", "know", "let", "like", "me", "my", "need", "no", "not", "of",
    "on", "or", "our", "please", "she", "should", "so", "some", "tell", "that", "the", "their", "then", "there",
    "these", "they", "this", "those", "to", "use", "used", "using", "want", "was", "we", "were", "what", "when",
    "where", "which", "who", "will", "with", "would", "you", "your",
    "again", "anything", "away", "because", "both", "but", "during", "each", "else", "here", "instead", "just", "maybe",
    "more", "most", "myself", "now", "off", "only", "other", "out", "really", "same", "since", "someone", "something",
    "still", "such", "than", "them", "through", "too", "until", "up", "us", "very", "while", "whom", "why", "without",
    "yet", "yourself",
    # What an apostrophe leaves: `I'll`, `I've`, `don't`.
    "aren", "couldn", "didn", "doesn", "don", "hasn", "haven", "isn", "ll", "re", "shouldn", "ve", "wasn", "won",
    "wouldn",
    "gonna", "hello", "hey", "hi", "inform", "thank", "thanks", "today", "tomorrow", "yesterday",
    # Of days and dates: `4th`, `March 2nd`.
    "st", "nd", "rd", "th", "january", "february", "march", "april", "june", "july", "august", "september", "october",
    "november", "december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
})  # fmt: skip

# A word with a capital within a sentence is mostly a name, and one in quotes is quoted: a value for an argument, not
# what is wanted.
_WEIGHT_OF_A_VALUE: Final = 0.7
_QUOTED: Final = re.compile(r"(?<!\w)'[^'\n]{1,200}'(?!\w)|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|`[^`\n]{1,200}`")
_MOST_QUOTED: Final = 0.7
"""Of the question: one that stands in quotes as a whole is no value."""

_SUFFIXES: Final = (
    "ation", "ally", "ance", "ator", "ence", "ical", "ment", "ness", "ship", "abl", "ant", "ari", "ent", "ful", "ion",
    "ist", "iti", "ive", "ori", "al", "er", "ic", "li", "or", "i",
)  # fmt: skip
"""Of words made from others, as they are left by `stem`; the longest first."""
_SHORTEST_ROOT: Final = 4

# In names of tools and arguments; none that is as often short for another word, as `temp` is.
_SHORT_FORMS: Final = {
    "addr": "address", "amt": "amount", "app": "application", "auth": "authentication", "avg": "average", "calc":
    "calculate", "cmd": "command", "config": "configuration", "coord": "coordinate", "db": "database", "dept":
    "department", "desc": "description", "dest": "destination", "dir": "directory", "doc": "document", "env":
    "environment", "fav": "favorite", "freq": "frequency", "geo": "geographic", "img": "image", "info":
    "information", "lang": "language", "lat": "latitude", "lng": "longitude", "loc": "location", "lon": "longitude",
    "max": "maximum", "msg": "message", "num": "number", "org": "organization", "param": "parameter", "pct":
    "percent", "pic": "picture", "prev": "previous", "prob": "probability", "pwd": "password", "qty": "quantity",
    "ref": "reference", "repo": "repository", "req": "request", "resp": "response", "src": "source", "std":
    "standard", "tel": "telephone", "txt": "text", "tz": "timezone", "usr": "user", "val": "value", "var":
    "variable",
}  # fmt: skip


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
    word = _SHORT_FORMS.get(word, word)
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
    """What a stem has in common with words that are made from the same one: `discover` and `discoverer`."""
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
