"""Cleaning of program texts that Python refuses: wrappers, notebook lines, JSON objects and odd characters."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

__all__ = ["CleanedText", "TextRefusal", "clean", "is_typed_in_ipython", "unwrap_json"]


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
# A program inside a JSON object, which is a valid and idle program itself: the call that a model wrote as text.

_PROGRAM_KEYS: Final = ("code", "program", "python", "python_code", "script")
_SIDE_KEYS: Final = frozenset(
    {"language", "lang", "description", "explanation", "reasoning", "thought", "thoughts", "timeout", "session_id"}
)
_CALL_KEYS: Final = ("arguments", "input", "parameters", "args")
_CALL_SIDE_KEYS: Final = frozenset({"name", "tool", "tool_name", "function", "action", "type", "id", "thought"})


class CleanedText(NamedTuple):
    """A program that was found in a text."""

    text: str
    notes: tuple[str, ...]
    """Changes that were made to the text, for the hints of its outcome."""
    packages: tuple[tuple[str, int], ...] = ()
    """Packages that it asks to install, each with its line."""


def unwrap_json(text: str) -> CleanedText | None:
    """The program of a text that is only a JSON object with a program and what usually stands beside one."""
    if text.lstrip()[:1] != "{" or text.rstrip()[-1:] != "}":
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _program(_arguments(document))


def _program(document: dict[str, Any]) -> CleanedText | None:
    for key in _PROGRAM_KEYS:
        program = document.get(key)
        if isinstance(program, str) and document.keys() <= {key, *_SIDE_KEYS} and (key == "code" or _is_long(program)):
            return CleanedText(program, (f"took the program from {key!r} of a JSON object",))
    return None


def _is_long(program: str) -> bool:
    """Whether a text can be a program: `{"program": "TV"}` is a value."""
    return "(" in program or "\n" in program


def _arguments(document: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call, which may be JSON text themselves; else the object as it is."""
    for key in _CALL_KEYS:
        inner = document.get(key)
        if inner is not None and document.keys() <= {key, *_CALL_SIDE_KEYS}:
            try:
                inner = json.loads(inner) if isinstance(inner, str) else inner
            except (ValueError, RecursionError):
                return document
            return inner if isinstance(inner, dict) else document
    return document


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


# ----------------------------------------------------------------------------------------------------
# What stands around a program: a Markdown fence, tags, prompts, and lines that only a notebook understands.
#
# Lines are emptied, never removed, so that line numbers stay those of the text as it was sent. A
# text is refused where it is not certain which part is the program: half a program must never run.

_FENCE: Final = re.compile(r"^[ \t]*+(?:`{3,}+|~{3,}+)[ \t]*+\{?+([\w+.#-]*+)[^`\n]*+$", re.MULTILINE)
_INLINE_FENCE: Final = re.compile(r"\A\s*```(?:python3?|py)?[ \t]++([^`\n]++)```\s*\Z")
_PYTHON: Final = frozenset({"", "python", "python3", "py", "py3", "ipython", "ipython3", "pycon", "tool_code", "code"})
_TAG: Final = re.compile(
    r"<(/?)(execute(?:_i?python)?|code|i?python|program|script|tool_c(?:ode|all)|py)\s*+>", re.IGNORECASE
)
_TOKENS_BEFORE: Final = re.compile(r"\A\s*+(?:<\|\w++\|>\s*+)++")
_TOKENS_AFTER: Final = re.compile(r"(?:<\|\w{1,40}+\|>|</?end_(?:code|action)>)\s*+\Z")
_PROMPT: Final = re.compile(r"^[ \t]*(?:>>>|\.\.\.|In \[\d*\]:|\.\.\.:)(?:[ ]|$)")
_FIRST_PROMPT: Final = re.compile(r"\A\s*(?:>>> |In \[\d*\]: )")
_LOOKS_LIKE_CODE: Final = re.compile(
    r"(?:import|from|def|async|class|for|while|if|with|try|return|await|raise|del|assert|global|print)\b|@\w"
    r"|[\w.]++\(|[\w.\[\]\"']++\s*+(?:[-+*/]?=)(?!=)"
)
_MOST_LINES: Final = 500
"""Around a program; each may have to be parsed."""
_NOTEBOOK: Final = re.compile(r"^([ \t]*+)(%%(?=\w)|%(?=\w)|!(?!=))([^\n]*+)$", re.MULTILINE)
_BARE_PIP: Final = re.compile(r"^([ \t]*+)()((?:python3?[ ]-m[ ])?(?:pip3?|conda)[ ]install[ ][^\n(]*+)$", re.MULTILINE)
_PIP: Final = re.compile(r"\s*(?:python3?\s+-m\s+)?(?:pip3?|conda|uv\s+pip)\s+install\s+(.*)")
_TIMED: Final = re.compile(r"time(?:it)?[ \t]+(?!-)(.+)")
_HARMLESS: Final = frozenset({"matplotlib", "load_ext", "autoreload", "config", "pylab", "precision", "colors"})
_TREE: Final = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_PACKAGE: Final = re.compile(r"[A-Za-z0-9][\w.-]*")


class TextRefusal(NamedTuple):
    """Why a text cannot be read as one program."""

    message: str
    line: int


Step = Callable[[str], CleanedText | TextRefusal | None]


def without_tags(text: str) -> CleanedText | TextRefusal | None:
    """The inside of one pair of tags such as `<execute>`."""
    tags = list(_TAG.finditer(text))
    if not tags:
        return None
    first, last = tags[0], tags[-1]
    name, line = first.group(2), _line(text, first)
    if len(tags) > 2:
        return TextRefusal(f"several <{name}> tags; send one program, in one pair of tags or in none", line)
    if len(tags) < 2 or first.group(1) or not last.group(1) or last.group(2).lower() != name.lower():
        return TextRefusal(f"<{first.group(1)}{name}> has no partner; send the whole program without tags", line)
    if name.lower() == "tool_call" and unwrap_json(text[first.end() : last.start()]) is None:
        return TextRefusal("a tool call in JSON; call the tool in Python: name(argument=...)", line)
    return _extract(text, first, last, first.end(), f"the <{name}> tags")


def without_tokens(text: str) -> CleanedText | None:
    """Without the marks that a model's own format puts before or after a program, such as `<|python_tag|>`."""
    first, last = _TOKENS_BEFORE.match(text), _TOKENS_AFTER.search(text)
    if first is None and last is None:
        return None
    begin = first.end() if first else 0
    inside = text[begin : max(begin, last.start())] if last else text[begin:]
    return CleanedText(_lines_before(text, begin) + inside, ("left out the tokens around the program",))


def without_fence(text: str) -> CleanedText | TextRefusal | None:
    """The inside of one Markdown fence."""
    inline = _INLINE_FENCE.match(text)
    if inline is not None:
        return CleanedText(_lines_before(text, inline.start(1)) + inline.group(1), ("left out the Markdown fence",))
    fences = list(_FENCE.finditer(text))
    if not fences:
        return None
    first, line = fences[0], _line(text, fences[0])
    if len(fences) == 1:
        return TextRefusal("the Markdown fence has no end; send the whole program, without a fence", line)
    last = fences[1]
    if len(fences) > 2 or last.group(1):
        return TextRefusal("several fenced blocks; send one program, in one fence or in none", _line(text, last))
    language = first.group(1)
    is_json = language.lower() == "json" and unwrap_json(text[first.end() : last.start()]) is not None
    if language.lower() not in _PYTHON and not is_json:
        return TextRefusal(f"the fenced block is marked {language!r}; send a Python program", line)
    return _extract(text, first, last, first.end() + 1, "the Markdown fence")


def _extract(
    text: str, first: re.Match[str], last: re.Match[str], begin: int, wrapper: str
) -> CleanedText | TextRefusal:
    around = [(text[: first.start()], 1), (text[last.end() :], text.count("\n", 0, last.end()) + 1)]
    for part, line in around:
        code = _code_in(part, line)
        if code is not None:
            return TextRefusal(f"there is code outside {wrapper}; put the whole program inside", code)
    prose = " and the text around it" if any(part.strip() for part, _ in around) else ""
    return CleanedText(_lines_before(text, begin) + text[begin : last.start()], (f"left out {wrapper}{prose}",))


def _code_in(part: str, first_line: int) -> int | None:
    """The line of the first statement among what should be prose."""
    for number, line in enumerate(part.splitlines()):
        if number > _MOST_LINES:
            return first_line + number
        if _LOOKS_LIKE_CODE.match(line.strip()) and _is_statement(line.strip()):
            return first_line + number
    return None


def _is_statement(line: str) -> bool:
    try:
        tree = compile(f"{line} pass" if line.endswith(":") else line, "<program>", "exec", _TREE, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return not all(
        isinstance(node, ast.AnnAssign)
        or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call | ast.Await))
        for node in tree.body
    )


def is_typed_in_ipython(text: str) -> bool:
    """Whether a text begins with a prompt that Python takes for an annotation: `In [1]: x = 1`."""
    return text.lstrip().startswith("In [") and _FIRST_PROMPT.match(text) is not None


def without_prompts(text: str) -> CleanedText | TextRefusal | None:
    """Input of an interactive session, without its prompts and output."""
    if _FIRST_PROMPT.match(text) is None:
        return None
    lines, has_output = [], False
    for number, line in enumerate(text.split("\n"), 1):
        prompt = _PROMPT.match(line)
        if prompt is not None:
            lines.append(line[prompt.end() :])
        elif _LOOKS_LIKE_CODE.match(line.strip()) and (number > _MOST_LINES or _is_statement(line.strip())):
            message = "a statement without a prompt among others with one; send the program without prompts"
            return TextRefusal(message, number)
        else:
            has_output = has_output or bool(line.strip())
            lines.append("")
    note = "left out the prompts" + (" and the output between them" if has_output else "")
    return CleanedText("\n".join(lines), (note,))


def without_notebook_lines(text: str) -> CleanedText | TextRefusal | None:
    """Without magics and `pip install`; other commands cannot be left out without changing what the program does."""
    matches = sorted(
        (match for pattern in (_NOTEBOOK, _BARE_PIP) for match in pattern.finditer(text)), key=re.Match.start
    )
    if not matches:
        return None
    code = iter([span for span in spans(text) if span.kind == "code"])
    code_span = next(code, None)
    pieces, at, left_out, packages = [], 0, [], []
    for match in matches:
        while code_span is not None and code_span.end <= match.end(1):
            code_span = next(code, None)
        if code_span is None or code_span.start > match.end(1):
            continue  # inside a string
        line = _line(text, match)
        replacement = _replace_line(match, line)
        if isinstance(replacement, TextRefusal):
            return replacement
        statement, names = replacement
        packages += [(name, line) for name in names]
        left_out.append(match.group().strip())
        pieces += [text[at : match.start()], match.group(1), statement]
        at = match.end()
    if not left_out:
        return None
    summary = ", ".join(repr(line_text[:40]) for line_text in left_out[:3]) + (", ..." if len(left_out) > 3 else "")
    return CleanedText("".join([*pieces, text[at:]]), (f"left out {summary}",), tuple(packages))


def _replace_line(match: re.Match[str], line: int) -> tuple[str, tuple[str, ...]] | TextRefusal:
    """Replacement of a notebook line, and the packages that it asks for."""
    sign, rest = match.group(2), match.group(3)
    if sign == "%%":
        message = f"'%%{rest[:20].strip()}' makes its cell something else than Python; send a Python program"
        return TextRefusal(message, line)
    installs = _PIP.match(rest)
    if installs is not None:
        words = [word for word in installs.group(1).split() if not word.startswith("-")]
        names = (_PACKAGE.match(word) for word in words)
        return "pass", tuple(name.group() for name in names if name is not None)
    if sign == "!":
        message = f"'!{rest.strip()[:40]}' is a shell command, and no process can be started here; use Python instead"
        return TextRefusal(message, line)
    timed = _TIMED.match(rest)
    if timed is not None:
        return timed.group(1), ()
    magic = rest.split(None, 1)[0] if rest.strip() else ""
    if magic in _HARMLESS:
        return "pass", ()
    return TextRefusal(f"'%{magic[:20]}' is a command of notebooks, not Python; leave it out", line)


STEPS: Final[tuple[Step, ...]] = (without_tokens, without_tags, without_fence, without_prompts, without_notebook_lines)
"""In the order in which wrappers stand inside each other."""


def _lines_before(text: str, index: int) -> str:
    return "\n" * text.count("\n", 0, index)


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


# ----------------------------------------------------------------------------------------------------
# A text that Python refuses, read as it was meant: without its wrapper, with plain characters.
#
# A text that Python takes is never touched. One that it refuses is cleaned step by step until it
# parses; if it never does, it stays as it was sent, and so does what Python says against it.

_CHARACTERS: Final = (plain_characters, without_entities, with_line_ends)


def clean(text: str, is_program: Callable[[str], bool]) -> CleanedText | TextRefusal | None:
    """The program in a text that is none; `Refused` if it is not certain which part is; `None` if none is found.

    One that was found may have mistakes of its own: then it is given as it stands inside its wrapper.
    """
    plain = _plain(text, is_program)
    if plain is not None:
        return plain
    cleaned = CleanedText(text, ())
    for step in STEPS:
        stripped = step(cleaned.text)
        if isinstance(stripped, TextRefusal):
            return stripped
        if stripped is not None:
            notes, packages = cleaned.notes + stripped.notes, cleaned.packages + stripped.packages
            cleaned = CleanedText(stripped.text, notes, packages)
            if is_program(cleaned.text):
                return cleaned
    if not cleaned.notes:
        return None
    plain = _plain(cleaned.text, is_program)
    return cleaned._replace(text=plain.text, notes=cleaned.notes + plain.notes) if plain else cleaned


def _plain(text: str, is_program: Callable[[str], bool]) -> CleanedText | None:
    """With plain characters, one kind after another, as far as it takes."""
    notes: tuple[str, ...] = ()
    for step in _CHARACTERS:
        cleaned, step_notes = step(text)
        if cleaned == text:
            continue
        text, notes = cleaned, notes + step_notes
        if is_program(text):
            return CleanedText(text, notes)
    return None
