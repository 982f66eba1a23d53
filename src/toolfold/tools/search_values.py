"""Values in a question, such as a date: they say which arguments a tool has that can take them."""

from __future__ import annotations

import re
from typing import Final

from toolfold.tools.search_words import stem

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
        (_DATE, re.IGNORECASE, "date day"),
        (_TIME, re.IGNORECASE, "time hour"),
        (r"https?://|\bwww\.", re.IGNORECASE, "url link uri"),
        (r"\w@\w", 0, "email mail address"),
        (r"\d{1,3}\.\d{1,12}\W{1,3}(?:[NS]\W{1,2})?-?\d{1,3}\.\d", 0, "latitude coordinates"),
        (r"[$€£¥]\s?\d", 0, "amount price cost budget"),
        (_PLACE, 0, "city location place"),
    )
)


def asked_with(query: str) -> list[tuple[str, ...]]:
    """For each kind of value in a question, the search words of arguments that take it."""
    return [words for pattern, words in _KINDS if pattern.search(query)]
