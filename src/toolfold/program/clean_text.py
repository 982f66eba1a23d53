"""Cleaning of program texts that Python refuses: wrappers, notebook lines, JSON objects and odd characters."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from toolfold.program.odd_characters import plain_characters, spans, with_line_ends, without_entities

__all__ = ["CleanedText", "TextRefusal", "call_in_json", "clean", "is_typed_in_ipython", "unwrap_json"]


# ----------------------------------------------------------------------------------------------------
# A program inside a JSON object, which is a valid and idle program itself: the call that a model wrote as text.

_PROGRAM_KEYS: Final = ("code", "program", "python", "python_code", "script")
_SIDE_KEYS: Final = frozenset(
    {"language", "lang", "description", "explanation", "reasoning", "thought", "thoughts", "timeout", "session_id"}
)
_CLOSING: Final = {"{": "}", "[": "]", '"': '"', "'": "'"}
_LONGEST_LITERAL: Final = 256 * 1024
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
    """The program of a text that is only a JSON value, or one of Python, with a program in it.

    That is a text that is a program, or an object with one and with what usually stands beside it.
    """
    document = _literal_in(text)
    if isinstance(document, str):
        is_code = _is_long(document) and _is_whole_program(document)
        return CleanedText(document, ("took the program from a string",)) if is_code else None
    call = _only_call(document)
    program = None if call is None else _program(_arguments(call))
    # `{'code': 'AB1'}` is a value; as JSON it is what a model sends.
    return program if program is None or '"code"' in text or _is_long(program.text) else None


def call_in_json(text: str) -> tuple[str, dict[str, Any]] | None:
    """Name and arguments of the tool call that a text is, as `{"name": ..., "arguments": {...}}`."""
    call = _only_call(_literal_in(text))
    if call is None or "code" in call:
        return None
    name = next(
        (call[key] for key in ("name", "tool", "tool_name", "function") if isinstance(call.get(key), str)), None
    )
    arguments = _arguments(call)
    return None if name is None or arguments is call else (name, arguments)


# Any: whatever the text holds.
def _literal_in(text: str) -> Any:
    """The value of a text that is one literal, in JSON or in Python; `None` for others."""
    text = text.strip()
    if len(text) < 2 or _CLOSING.get(text[0]) != text[-1] or len(text) > _LONGEST_LITERAL:
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return None


def _only_call(document: Any) -> dict[str, Any] | None:
    """The object itself, or the one call in a list of calls."""
    for _ in range(3):
        if isinstance(document, dict) and isinstance(document.get("tool_calls"), list):
            document = document["tool_calls"]
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        if isinstance(document, dict) and isinstance(document.get("function"), dict):
            document = document["function"]
    return document if isinstance(document, dict) and all(isinstance(key, str) for key in document) else None


def _is_whole_program(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return _LOOKS_LIKE_CODE.match(first) is not None and _is_statement(text)


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
_MARK: Final = (
    r"(?:<[|｜][^<>|｜\n]{1,40}+[|｜]>|</?s>|<(?:[be]os|(?:start|end)_of_turn|/?end_(?:code|action))>"
    r"|\[/?(?:PYTHON|INST|TOOL_CALLS)\])"
)
_MARKS_BEFORE: Final = re.compile(rf"\A\s*+(?:{_MARK}\s*+)++")
_MARK_AFTER: Final = re.compile(rf"{_MARK}\s*+\Z")
_LONGEST_MARK: Final = 60
_MARK_WITHIN: Final = re.compile(r"<\|python_tag\|>|<[|｜]tool[▁_]sep[|｜]>")
"""What a program or its JSON begins after, whatever stands before it."""
_THOUGHTS: Final = re.compile(r"\A\s*+<(think|thinking|reasoning|thought)>", re.IGNORECASE)
_THOUGHTS_END: Final = re.compile(
    r"^[ \t]*+</(?:think|thinking|reasoning|thought)>[ \t]*+$", re.IGNORECASE | re.MULTILINE
)
_CDATA: Final = re.compile(r"<!\[CDATA\[|\]\]>")
_PARAMETER: Final = re.compile(
    r"<(?:\w{1,20}+:)?+parameter(?:=|[ ]name=)[\"']?+([\w-]{1,40}+)[\"']?+\s*+>|</(?:\w{1,20}+:)?+parameter>"
)
_INVOKE: Final = re.compile(r"</?(?:\w{1,20}+:)?+(?:function_calls|invoke|tool_call|function)\b[^<>\n]{0,80}+>")
_PROMPT: Final = re.compile(r"^[ \t]*(?:>>>|\.\.\.|In \[\d*\]:|\.\.\.:)(?:[ ]|$)")
_FIRST_PROMPT: Final = re.compile(r"\A\s*(?:>>> |In \[\d*\]: )")
_LOOKS_LIKE_CODE: Final = re.compile(
    r"(?:import|from|def|async|class|for|while|if|with|try|return|await|raise|del|assert|global|print)\b|@\w"
    r"|[\w.]++\(|[\w.\[\]\"']++\s*+(?:[-+*/]?=)(?!=)"
)
_MOST_BLOCKS: Final = 20
_MOST_LINES: Final = 500
"""Around a program; each may have to be parsed."""
_NOTEBOOK: Final = re.compile(r"^([ \t]*+)(%%(?=\w)|%(?=\w)|!(?!=))([^\n]*+)$", re.MULTILINE)
_BARE_PIP: Final = re.compile(r"^([ \t]*+)()((?:python3?[ ]-m[ ])?(?:pip3?|conda)[ ]install[ ][^\n(]*+)$", re.MULTILINE)
_PIP: Final = re.compile(r"\s*(?:python3?\s+-m\s+)?(?:pip3?|conda|uv\s+pip)\s+install\s+(.*)")
_TIMED: Final = re.compile(r"time(?:it)?[ \t]+(?!-)(.+)")
_PYTHON_CELLS: Final = frozenset({"time", "timeit", "capture", "prun", "python", "python3"})
"""Cell magics whose cell is Python."""
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


def without_tokens(text: str) -> CleanedText | TextRefusal | None:
    """Without the marks that a model's own format puts before or after a program, such as `<|python_tag|>`."""
    first, within = _MARKS_BEFORE.match(text), _MARK_WITHIN.search(text)
    begin, end = first.end() if first else 0, len(text)
    while (last := _MARK_AFTER.search(text, max(begin, end - _LONGEST_MARK), end)) is not None:
        end = last.start()
    if within is not None and begin < within.end() <= end:
        code = _code_in(text[begin : within.start()], 1 + text.count("\n", 0, begin))
        if code is not None:
            return TextRefusal(f"there is code before {within.group()}; put the whole program behind it", code)
        begin = within.end()
    if begin == 0 and end == len(text):
        return None
    return CleanedText(_lines_before(text, begin) + text[begin:end], ("left out the tokens around the program",))


def without_thoughts(text: str) -> CleanedText | None:
    """What follows the `<think>` block of a model; of some models the text begins inside of it."""
    opening = _THOUGHTS.match(text)
    if opening is None:
        closing = _THOUGHTS_END.search(text)
        end = -1 if closing is None else closing.end()
    else:
        name = opening.group(1).lower()
        at = text.lower().find(f"</{name}>", opening.end())
        end = -1 if at < 0 else at + len(name) + 3
    if end < 0:
        return None
    return CleanedText(_lines_before(text, end) + text[end:], ("left out the thoughts before the program",))


def without_call_tags(text: str) -> CleanedText | TextRefusal | None:
    """The program in a call that is written as XML: `<invoke name="..."><parameter name="code">...`."""
    tags, calls = list(_PARAMETER.finditer(text)), list(_INVOKE.finditer(text))
    if not tags or not calls:
        return None
    programs = [index for index, tag in enumerate(tags) if tag.group(1) in _PROGRAM_KEYS]
    if len(programs) != 1 or len(tags) < programs[0] + 2 or tags[programs[0] + 1].group(1):
        message = "a tool call in XML; send one Python program that calls the tool: name(argument=...)"
        return TextRefusal(message, _line(text, calls[0]))
    first, last = tags[programs[0]], tags[programs[0] + 1]
    code = _code_in(text[: calls[0].start()], 1) if calls[0].start() < first.start() else None
    if code is not None:
        return TextRefusal("there is code outside the call; put the whole program inside", code)
    inside = text[first.end() : last.start()]
    return CleanedText(_lines_before(text, first.end()) + inside, ("left out the tags of the call around the program",))


def without_cdata(text: str) -> CleanedText | None:
    """The inside of one CDATA section."""
    marks = list(_CDATA.finditer(text))
    if len(marks) != 2 or marks[0].group() == "]]>" or marks[1].group() != "]]>":
        return None
    first, last = marks
    if text[: first.start()].strip() or text[last.end() :].strip():
        return None
    return CleanedText(
        _lines_before(text, first.end()) + text[first.end() : last.start()], ("left out the CDATA section",)
    )


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
        return _join_fences(text, fences)
    language = first.group(1)
    is_json = language.lower() == "json" and unwrap_json(text[first.end() : last.start()]) is not None
    if language.lower() not in _PYTHON and not is_json:
        return TextRefusal(f"the fenced block is marked {language!r}; send a Python program", line)
    return _extract(text, first, last, first.end() + 1, "the Markdown fence")


def _join_fences(text: str, fences: list[re.Match[str]]) -> CleanedText | TextRefusal:
    """The one block of Python among several, or all of them where each goes on with what those before it have named."""
    refusal = TextRefusal("several fenced blocks; send one program, in one fence or in none", _line(text, fences[1]))
    pairs = list(zip(fences[::2], fences[1::2], strict=False))
    if len(fences) % 2 or any(closing.group(1) for _, closing in pairs) or len(pairs) > _MOST_BLOCKS:
        return refusal
    blocks = [(first, last) for first, last in pairs if first.group(1).lower() in _PYTHON]
    marked = [(first, last) for first, last in blocks if first.group(1)]
    texts = [text[first.end() : last.start()] for first, last in marked or blocks]
    blocks = (marked or blocks)[: 1 if len(set(texts)) == 1 else None]
    gaps = [0, *(last.end() for _, last in pairs)]
    for (first, _), start in zip([*pairs, (None, None)], gaps, strict=True):
        code = _code_in(text[start : first.start() if first else len(text)], 1 + text.count("\n", 0, start))
        if code is not None:
            return TextRefusal("there is code outside the Markdown fence; put the whole program inside", code)
    if not blocks or (len(blocks) > 1 and not _is_continued(texts)):
        return refusal
    pieces, at = [], 0
    for first, last in blocks:
        pieces += ["\n" * text.count("\n", at, first.end() + 1), text[first.end() + 1 : last.start()]]
        at = last.start()
    note = "joined the Python blocks" if len(blocks) > 1 else "took the Python block"
    return CleanedText("".join(pieces), (f"{note} and left out the text around",))


def _is_continued(texts: list[str]) -> bool:
    """Whether each block reads a name that one before it binds and it does not: parts of one program, no variants."""
    bound: set[str] = set()
    for text in texts:
        try:
            nodes = list(ast.walk(compile(text, "<program>", "exec", _TREE, dont_inherit=True)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        names = [node for node in nodes if isinstance(node, ast.Name)]
        own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        own |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
        if bound and {node.id for node in names if isinstance(node.ctx, ast.Load)}.isdisjoint(bound - own):
            return False
        bound |= own
    return True


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
    if sign == "%%" and rest.split(None, 1)[0] not in _PYTHON_CELLS:
        message = f"'%%{rest[:20].strip()}' makes its cell something else than Python; send a Python program"
        return TextRefusal(message, line)
    if sign == "%%":
        return "pass", ()
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


STEPS: Final[tuple[Step, ...]] = (
    without_tokens, without_thoughts, without_call_tags, without_tags, without_cdata, without_fence, without_prompts,
    without_notebook_lines,
)  # fmt: skip
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
