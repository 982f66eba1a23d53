"""Odd characters in program texts, read as those of Python, and where a text's literals and comments are."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

# ----------------------------------------------------------------------------------------------------
# Characters that stand for others: curved quotes, spaces that are none, entities, line ends written out.
#
# Plain string literals and comments are never altered.

_SPACES: Final = dict.fromkeys([0x00A0, 0x202F, 0x205F, 0x3000, *range(0x2000, 0x200B)], " ")
_UNSEEN: Final = dict.fromkeys([0x00AD, 0x180E, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF], "")
_SIGNS: Final = {
    ord("−"): "-", ord("–"): "-", ord("…"): "...", ord("≤"): "<=", ord("≥"): ">=", ord("≠"): "!=", ord("×"): "*",
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F) if not chr(code - 0xFEE0).isalnum()},
}  # fmt: skip
_TABLE: Final = _SPACES | _UNSEEN | _SIGNS
_ENTITY: Final = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#34|#39|#x22|#x27);", re.IGNORECASE)
_QUOTE_ENTITY: Final = re.compile(r"&(?:quot|apos|#34|#39|#x22|#x27);", re.IGNORECASE)
_WRITTEN_OUT: Final = re.compile(r"\\(?:r\\n|n|t)")
_MEANING: Final = {r"\r\n": "\n", r"\n": "\n", r"\t": "\t"}


def plain_characters(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with ASCII quotes, spaces and signs outside of its literals, and what was read otherwise."""
    if text.isascii():
        return text, ()
    pieces = []
    has_quotes = False
    for kind, start, end in spans(text):
        piece = text[start:end]
        if kind == "typographic":
            piece, has_quotes = _requote(piece), True
        elif kind == "code":
            piece = piece.translate(_TABLE)
        pieces.append(piece)
    cleaned = "".join(pieces)
    notes = ["read typographic quotes as plain ones"] if has_quotes else []
    pairs = zip(text, cleaned, strict=False)
    if len(cleaned) != len(text) or any(old != new and new not in "\"'" for old, new in pairs):
        notes.append("read characters that only look like spaces or signs of Python as those")
    return cleaned, tuple(notes)


def _requote(piece: str) -> str:
    """Only single quotes can have a plain double quote between them."""
    return f"'{piece[1:-1]}'" if '"' in piece[1:-1] else f'"{piece[1:-1]}"'


def without_entities(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with `<` for `&lt;` and such, where a page's source was copied."""
    if _ENTITY.search(text) is None:
        return text, ()
    if _QUOTE_ENTITY.search(text) is not None and '"' not in text and "'" not in text:
        cleaned = _ENTITY.sub(_unescape, text)  # its quotes too, so that its literals are written the same way
    else:
        parts = ((kind, text[start:end]) for kind, start, end in spans(text))
        cleaned = "".join(_ENTITY.sub(_unescape, part) if kind == "code" else part for kind, part in parts)
    return cleaned, ("read HTML entities as the characters they stand for",)


def _unescape(entity: re.Match[str]) -> str:
    return html.unescape(entity.group()).replace("\u00a0", " ")


def with_line_ends(text: str) -> tuple[str, tuple[str, ...]]:
    r"""The text with line ends where it has `\n` written out, as inside a JSON string."""
    if "\\n" not in text:
        return text, ()
    note = ("read '\\n' between statements as line ends",)
    if '\\"' in text and "\n" not in text.strip():
        try:
            whole = json.loads(f'"{text.strip()}"')
        except ValueError:
            pass  # not the inside of a JSON string after all
        else:
            return str(whole), note
    pieces = []
    for kind, start, end in spans(text, has_escaped_lines=True):
        piece = text[start:end]
        pieces.append(_WRITTEN_OUT.sub(lambda match: _MEANING[match.group()], piece) if kind == "code" else piece)
    return "".join(pieces), note


# ----------------------------------------------------------------------------------------------------
# Where the string literals and comments of a text are, though Python cannot read the text as a whole.
#
# One pass, and each pattern gives nothing back once it has matched: the text may be hostile, and
# a pattern that tries again takes hours for a megabyte of quotes.

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
    """Kind and end of what a quote or `#` begins."""
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
