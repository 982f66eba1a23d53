"""Wording of descriptions: text made safe for Python source, cut to a length, or split into sentences."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from toolfold.models import Outcome

_INDENT: Final = "    "


def one_line(text: str, longest: int) -> str:
    """All of it on one line, without signs that cannot be seen, cut at `longest` characters."""
    # Cut first as well: a description may be megabytes.
    start = text[: longest * 4]
    words = " ".join(start.split())
    visible = "".join(sign for sign in words if sign.isprintable())
    return cut(visible, longest) if len(start) == len(text) else f"{visible[: longest - 1]}…"


def paragraphs(text: str, longest: int) -> str:
    """The text with its lines, without signs that cannot be seen, cut at `longest` characters."""
    start = text[: longest + 1].replace("\t", _INDENT)
    lines = ("".join(_visible(sign) for sign in line).rstrip() for line in start.splitlines())
    return cut("\n".join(lines).strip(), longest)


def docstring(text: str) -> str:
    """The text as a docstring in source, indented; the empty text gives none."""
    if not text:
        return ""
    stem = text.rstrip('"')
    quotes = '\\"' * (len(text) - len(stem))  # else they would join those that end the docstring
    safe = stem.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + quotes
    first, *lines = safe.split("\n")
    if not lines:
        return f'{_INDENT}"""{first}"""'
    rest = (f"{_INDENT}{line}" if line else "" for line in lines)
    return "\n".join([f'{_INDENT}"""{first}', *rest, f'{_INDENT}"""'])


def cut(text: str, longest: int) -> str:
    """At most `longest` characters; the last one says that there was more."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def width(text: str) -> int:
    """Characters as clients count them: in UTF-16."""
    return len(text) + sum(character > "\uffff" for character in text)


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, where every smaller one does; 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def respell(name: str) -> str:
    """Python spelling of an argument name: `user_id` for `user-id`, `from_` for `from`."""
    spelt = re.sub(r"\W", "_", name)
    return f"{spelt}_" if keyword.iskeyword(spelt) else spelt


def _visible(sign: str) -> str:
    if sign.isprintable():
        return sign
    return " " if sign.isspace() else ""


# ----------------------------------------------------------------------------------------------------
# A description as its sentences, each on one line, and what several descriptions have in common.

LONGEST_WORDS: Final = 1_200
"""Limit for one description; `help` and a search in full detail have all of it."""
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
    """Sentences that all texts share, in order, if stating them once is shorter."""
    if len(descriptions) < 2:
        return ()
    everywhere = set(descriptions[0]).intersection(*descriptions[1:])
    shared = tuple(sentence for sentence in dict.fromkeys(descriptions[0]) if sentence in everywhere)
    return shared if sum(map(len, shared)) >= _SHORTEST_SHARED else ()


# ----------------------------------------------------------------------------------------------------
# What a model reads beside a program's output, so that its next program works: one set of sentences for all interfaces.


def first_line(outcome: Outcome) -> str:
    """What a model has to know first of a program that finished: calls that were not made, and probable mistakes."""
    return "; ".join(filter(None, [outcome.unmade_line, *outcome.line_hints])) if outcome.status == "finished" else ""


def lessons(outcome: Outcome) -> Iterator[str]:
    """Each is a part of its own, after the text that the interface promises."""
    if outcome.status != "finished" and outcome.unmade_calls:
        yield outcome.unmade_line
    yield from (hint for hint in outcome.hints if hint.startswith("session "))
    if outcome.status == "finished" and outcome.isolation.endswith("shell profile") and outcome.stderr.strip():
        yield f"stderr:\n{outcome.stderr}"  # a shell goes on after a command that fails
    if outcome.stdout_cut_bytes:
        missing = outcome.stdout_cut_bytes - len(outcome.stdout_tail.encode())
        text = f"{missing:,} bytes of output are not shown. A program can read the whole: open({outcome.output_name!r})"
        yield f"{text}. It ends with:\n{outcome.stdout_tail}" if outcome.stdout_tail.strip() else text
    if outcome.shapes:
        shapes = "\n".join(outcome.shapes)
        yield shapes if outcome.status == "failed" else f"Nothing was printed. The last replies:\n{shapes}"
