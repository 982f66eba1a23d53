"""Where the string literals and comments of a text are, though Python cannot read the text as a whole.

One pass, and each pattern gives nothing back once it has matched: the text may be hostile, and
a pattern that tries again takes hours for a megabyte of quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Kind = Literal["code", "string", "comment", "typographic"]

_OPENING: Final = re.compile(r'"""|\'\'\'|["\'#“”„‟‘’‚‛]')
_REST: Final = {
    '"""': re.compile(r'(?:[^\\"]++|\\.|"(?!""))*+"""', re.DOTALL),
    "'''": re.compile(r"(?:[^\\']++|\\.|'(?!''))*+'''", re.DOTALL),
    '"': re.compile(r'(?:[^\\"\n]++|\\.)*+"', re.DOTALL),
    "'": re.compile(r"(?:[^\\'\n]++|\\.)*+'", re.DOTALL),
}
_DOUBLE: Final = re.compile(r'[^“”„‟"\n]*+[“”„‟"]')
_SINGLE: Final = re.compile(r"[^‘’‚‛'\n]*+[‘’‚‛']")
_COMMENT: Final = re.compile(r"[^\n]*+")
_ESCAPED_COMMENT: Final = re.compile(r"(?:[^\\\n]++|\\(?!n))*+")


class Span(NamedTuple):
    """A part of a text."""

    kind: Kind
    start: int
    end: int


def spans(text: str, *, has_escaped_lines: bool = False) -> Iterator[Span]:
    r"""The whole text in parts; a typographic string is one between curved quotes, on one line.

    With `has_escaped_lines` a comment ends at a `\n` that is written out.
    """
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        if opening.start() > at:
            yield Span("code", at, opening.start())
        kind, at = _literal(text, opening.group(), opening.end(), has_escaped_lines)
        yield Span(kind, opening.start(), at)
    if at < len(text):
        yield Span("code", at, len(text))


def _literal(text: str, quote: str, after: int, has_escaped_lines: bool) -> tuple[Kind, int]:
    """What a quote or `#` begins, and where that ends."""
    if quote == "#":
        comment = (_ESCAPED_COMMENT if has_escaped_lines else _COMMENT).match(text, after)
        return "comment", comment.end() if comment else len(text)
    if quote not in _REST:
        rest = (_DOUBLE if quote in "“”„‟" else _SINGLE).match(text, after)
        return ("typographic", rest.end()) if rest else ("code", after)
    rest = _REST[quote].match(text, after)
    if rest is not None:
        return "string", rest.end()
    if len(quote) == 3:
        return "string", len(text)
    # A plain quote that a curved one closes; else an apostrophe, or a string that was never closed.
    rest = (_DOUBLE if quote == '"' else _SINGLE).match(text, after)
    if rest is not None:
        return "typographic", rest.end()
    end = text.find("\n", after)
    return "string", len(text) if end < 0 else end
