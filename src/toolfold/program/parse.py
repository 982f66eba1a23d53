"""Parser of program texts: trees, late compiler errors, and problems with their line and excerpt.

The text is hostile and this is the trusted host. Parsing is bounded in time and depth;
code generation is not (nested `finally` doubles it each time, long `case` patterns square it,
a comprehension with 100,000 `for` overruns the C stack), so only tame trees get that far.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import warnings
from dataclasses import replace
from typing import Final, NamedTuple

from toolfold.models import Limits, Problem, ProblemKind
from toolfold.program.clean_text import TextRefusal, clean, is_typed_in_ipython, unwrap_json
from toolfold.program.reader import ProgramReader

FILENAME: Final = "<program>"

_PARSE: Final = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_OUR_WARNINGS: Final = rf"{FILENAME}\Z"
_TOO_DEEP: Final = "the program is nested too deeply; split the expression or statement into several"
_TAME_BYTES: Final = 32 * 1024
_TAME_CAPTURES: Final = 64
_TAME_LOOPS: Final = 64
_PLAIN_CHARACTERS: Final = 2000
"""Fewer than can be nested too deeply for the compiler."""
_PLAIN_LOOPS: Final = 16
"""CPython allows 20 nested blocks."""
_PLAIN: Final = frozenset(
    {
        ast.Assert, ast.Assign, ast.Attribute, ast.AugAssign, ast.Await, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare,
        ast.Constant, ast.Dict, ast.DictComp, ast.Expr, ast.For, ast.FormattedValue, ast.GeneratorExp, ast.If,
        ast.IfExp, ast.Import, ast.ImportFrom, ast.JoinedStr, ast.List, ast.ListComp, ast.Name, ast.Pass, ast.Set,
        ast.SetComp, ast.Slice, ast.Subscript, ast.Tuple, ast.UnaryOp, ast.alias, ast.comprehension, ast.keyword,
    }
)  # fmt: skip
"""Kinds of nodes that the parser alone judges, at the top level of a program."""
_PLAIN_BLOCKS: Final = _PLAIN | {
    ast.AsyncFunctionDef, ast.AsyncWith, ast.ClassDef, ast.FunctionDef, ast.Lambda, ast.Raise, ast.Return, ast.Starred,
    ast.Try, ast.While, ast.With,
}  # fmt: skip
"""With those whose faults the reader sees."""


MAX_NODES: Final = 300_000
"""About as many as a megabyte of data has; one of nothing but statements has four times as many, and takes seconds."""
_WHOLE: Final = re.compile(
    r"""
    \#[^\n]*+
    | \'\'\' [^'\\]*+ (?: (?:\\[\s\S] | '(?!'')) [^'\\]*+ )*+ (?:\'\'\')?
    | \"\"\" [^"\\]*+ (?: (?:\\[\s\S] | "(?!"")) [^"\\]*+ )*+ (?:\"\"\")?
    | ' [^'\\\n]*+ (?: \\[\s\S] [^'\\\n]*+ )*+ '?
    | " [^"\\\n]*+ (?: \\[\s\S] [^"\\\n]*+ )*+ "?
    """,
    re.VERBOSE,
)
"""Comments and strings. Each always ends somewhere: one that had to be looked for again would take quadratic time."""
_NODE: Final = re.compile(r"\w++|[^\s\w,.:)\]}]|\n")


def too_many_nodes(text: str) -> Problem | None:
    """Refuse a text whose tree would be too large, without making that: an estimate, for texts that are large."""
    # Braces are counted in strings, too: an f-string has a node for each of its own.
    nodes = _NODE.subn("", _WHOLE.sub("0", text))[1] + text.count("{")
    if nodes <= MAX_NODES:
        return None
    message = (
        f"the program has more than {MAX_NODES} names, values and operators; read data from files or tools instead"
    )
    return Problem(kind="too_large", message=message)


def parse(text: str, limits: Limits) -> ast.Module | Problem:
    """The tree of a program, or what Python says against its text."""
    unfit = unfit_text(text, limits)
    if unfit is not None:
        return unfit
    _silence_warnings()
    tree = _compiled(text, text, _PARSE)
    assert isinstance(tree, ast.Module | Problem)
    return tree


def _compiled(source: str | ast.Module, text: str, flags: int) -> object:
    """Result of `compile` for a program's text or tree, or its `Problem`."""
    try:
        return compile(source, FILENAME, "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        if source is text:
            return problem_at(text, "syntax", error.msg, error.lineno, error.offset)
        # Of a tree, the place is that of its nodes, which count bytes.
        return problem_at_byte(text, "syntax", error.msg, error.lineno, (error.offset or 0) - 1)
    # MemoryError and SystemError: how the parser says that its stack is full.
    except (RecursionError, MemoryError, SystemError):
        return Problem(kind="syntax", message=_TOO_DEEP)
    except (ValueError, OverflowError) as error:
        return Problem(kind="syntax", message=str(error))


def late_error(text: str, tree: ast.Module, reader: ProgramReader) -> Problem | None:
    """What only the compiler sees: `break` outside a loop, `await` in a plain function, and such.

    Changes the tree, so it comes after the reader. A tree that is not tame is left to the guest.
    """
    if _is_plain(text, reader):
        return None
    if len(text) > _TAME_BYTES or reader.shape.captures > _TAME_CAPTURES or reader.shape.most_loops > _TAME_LOOPS:
        return None
    for try_statement in reader.shape.tries_with_finally:
        _unroll_finally(try_statement)
    for return_statement in reader.shape.top_level_returns:
        _make_expression(return_statement)
    result = _compiled(tree, text, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return result if isinstance(result, Problem) else None


def _is_plain(text: str, reader: ProgramReader) -> bool:
    """Whether there is nothing in it that the compiler could object to; to compile takes a third of the check."""
    shape = reader.shape
    return (
        len(text) <= _PLAIN_CHARACTERS
        and (shape.kinds <= _PLAIN or (shape.kinds <= _PLAIN_BLOCKS and _has_plain_blocks(text, reader)))
        and "__debug__" not in text
        and "__future__" not in text
        and text.count("for") <= _PLAIN_LOOPS
        and not any(len(use.node.keywords) > 1 and _repeats_keyword(use.node) for use in reader.calls)
    )


def _has_plain_blocks(text: str, reader: ProgramReader) -> bool:
    shape = reader.shape
    if ast.Starred in shape.kinds:
        arguments = (argument for use in reader.calls for argument in use.node.args)
        if text.count("*") > sum(isinstance(argument, ast.Starred) for argument in arguments):
            return False
    return (
        not (shape.is_odd or shape.tries_with_finally or shape.top_level_returns)
        and text.count("for") + 2 * sum(map(text.count, ("try", "with", "while"))) <= _PLAIN_LOOPS
        and all(use.scope.can_await for use, _ in reader.values.async_uses)
        and not any(use.scope.parent and use.node.names[0].name == "*" for use in reader.imports)
    )


def _repeats_keyword(call: ast.Call) -> bool:
    names = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
    return len(set(names)) < len(names)


def unfit_text(text: str, limits: Limits) -> Problem | None:
    """Why no program can have this text, whatever its language."""
    size = len(text)
    if size <= limits.program_bytes and not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            message = f"the text holds {text[error.start]!r}, half of a character pair; write the character itself"
            return problem_at(text, "syntax", message, *position_of(text, error.start))
    if size > limits.program_bytes:
        message = f"the program is larger than {limits.program_bytes} bytes; read data from files or tools instead"
        return Problem(kind="too_large", message=message)
    if "\0" in text:
        message = "the text holds a null character; write '\\0' inside a string"
        return problem_at(text, "syntax", message, *position_of(text, text.index("\0")))
    return None


def _silence_warnings() -> None:
    """Keep a program's `SyntaxWarning`s off the host's stderr, and from being errors under `-W error`.

    The filter fits programs only and stays: `catch_warnings` would race with other threads.
    """
    filters = warnings.filters
    if not filters or getattr(filters[0][3], "pattern", None) != _OUR_WARNINGS:
        warnings.filterwarnings("ignore", module=_OUR_WARNINGS)


def _unroll_finally(node: ast.Try) -> None:
    """`finally` as plain statements after the rest: the compiler would copy it, 2**n times when nested."""
    place = {"lineno": node.lineno, "col_offset": node.col_offset}
    body = node.body
    if node.handlers:
        inner = type(node)(body=body, handlers=node.handlers, orelse=node.orelse, finalbody=[], **place)
        body = [inner]
    node.body = [*body, *node.finalbody]
    node.handlers = [ast.ExceptHandler(type=None, name=None, body=[ast.Pass(**place)], **place)]
    node.orelse, node.finalbody = [], []
    node.__class__ = ast.Try


def _make_expression(node: ast.Return) -> None:
    """A top-level `return` is part of the dialect, though not of Python."""
    if node.value is None:
        node.value = ast.Constant(value=None, lineno=node.lineno, col_offset=node.col_offset)
    # In place: the node's list is not at hand, and an `Expr` has the same one field.
    node.__class__ = ast.Expr  # type: ignore[assignment]


# ----------------------------------------------------------------------------------------------------
# The program in a text as it was sent: the text itself, or what it is without a margin, a fence and the like.


_LITERAL_STARTS: Final = ("{", "[", '"', "'")


class ParsedProgram(NamedTuple):
    """A program that was found."""

    text: str
    tree: ast.Module
    notes: tuple[str, ...] = ()
    """Changes that were made to the text."""
    packages: tuple[tuple[str, int], ...] = ()
    """Packages that it asks to install, each with its line."""


def program_in(text: str, limits: Limits) -> ParsedProgram | Problem:
    """The program, or what Python says against the text."""
    wrapped = unwrap_json(text) if text.lstrip()[:1] in _LITERAL_STARTS else None
    if wrapped is not None:
        inside = program_in(wrapped.text, limits)
        return inside if isinstance(inside, Problem) else inside._replace(notes=wrapped.notes + inside.notes)
    result = _parse_unchanged(text, limits)
    is_program = not isinstance(result, Problem) or result.kind != "syntax"
    if is_program and not ("In [" in text and is_typed_in_ipython(text)):
        return result
    cleaned = clean(text, lambda candidate: not isinstance(_parse_unchanged(candidate, limits), Problem))
    if cleaned is None:
        return with_fix(result, text) if isinstance(result, Problem) else result
    if isinstance(cleaned, TextRefusal):
        return problem_at(text, "syntax", cleaned.message, cleaned.line, None)
    if unwrap_json(cleaned.text) is not None:
        inside = program_in(cleaned.text, limits)
        return inside if isinstance(inside, Problem) else inside._replace(notes=cleaned.notes + inside.notes)
    inside = _parse_unchanged(cleaned.text, limits)
    if isinstance(inside, Problem):
        return with_fix(inside, cleaned.text)
    return ParsedProgram(inside.text, inside.tree, cleaned.notes, cleaned.packages)


def _parse_unchanged(text: str, limits: Limits) -> ParsedProgram | Problem:
    """Without cleaning, but for a margin of the whole, as of a client that writes a program into its own code.

    Only of a text that Python refuses: in others an indented first line may be a comment, and the same spaces inside
    of a string are meant.
    """
    tree = parse(text, limits)
    if isinstance(tree, Problem) and tree.kind == "syntax" and text.lstrip("\r\n")[:1] in (" ", "\t"):
        dedented_text = textwrap.dedent(text)
        if dedented_text != text:
            text, tree = dedented_text, parse(dedented_text, limits)
    return tree if isinstance(tree, Problem) else ParsedProgram(text, tree)


# ----------------------------------------------------------------------------------------------------
# Where in a program something is: lines as Python counts them, and the excerpt with its caret.

_LINE_END: Final = re.compile(r"\r\n|\r|\n")  # not `splitlines`: form feeds do not end a line of Python
_WIDEST: Final = 160
_LONGEST_MESSAGE: Final = 400


def problem_at(text: str, kind: ProblemKind, message: str, line: int | None, column: int | None) -> Problem:
    """A problem with its excerpt; `column` counts characters from 1."""
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "..."
    source = _line(text, line)
    if source is None:
        return Problem(kind=kind, message=message, line=line)
    if column is None or column < 1:
        return Problem(kind=kind, message=message, line=line, source=_cut(source, 0)[0])
    column = min(column, len(source) + 1)
    return Problem(kind=kind, message=message, line=line, column=column, source=_with_caret(source, column - 1))


def problem_at_byte(text: str, kind: ProblemKind, message: str, line: int | None, byte: int | None) -> Problem:
    """The same for a place in the tree, which counts UTF-8 bytes from 0."""
    source = _line(text, line)
    if source is None or byte is None or byte < 0:
        return problem_at(text, kind, message, line, None)
    before = source.encode("utf-8", "replace")[:byte].decode("utf-8", "replace")
    return problem_at(text, kind, message, line, len(before) + 1)


def position_of(text: str, index: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character of the text."""
    lines = _LINE_END.split(text[:index])
    return len(lines), len(lines[-1]) + 1


def split_lines(text: str) -> list[str]:
    return _LINE_END.split(text)


def _line(text: str, line: int | None) -> str | None:
    if line is None or line < 1:
        return None
    lines = _LINE_END.split(text, maxsplit=line)
    return lines[line - 1] if line <= len(lines) else None


def _with_caret(source: str, index: int) -> str:
    excerpt, index = _cut(source, index)
    # Tabs stay tabs, so that the caret stands under its character however wide a tab is.
    margin = "".join("\t" if letter == "\t" else " " for letter in excerpt[:index])
    return f"{excerpt}\n{margin}^"


def _cut(source: str, index: int) -> tuple[str, int]:
    """A window of a long line around `index`, free of what would break an excerpt of two lines."""
    start = max(0, index - _WIDEST // 2) if len(source) > _WIDEST else 0
    excerpt = source[start : start + _WIDEST]
    excerpt = "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in excerpt)
    return excerpt.rstrip() if len(excerpt.rstrip()) >= index - start else excerpt, index - start


# ----------------------------------------------------------------------------------------------------
# Signs of another language in a line that Python refuses, and what Python writes instead: words for an error text.

_LITERALS: Final = re.compile(r"\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'")
_LONGEST_LINE: Final = 2000
_SIGNS: Final = tuple(
    (re.compile(pattern), fix)
    for pattern, fix in (
        (r"^\s*(?:const|let|var)\s", "write 'name = value', without 'const', 'let' or 'var'"),
        (r"^\s*(?:export\s+)?(?:async\s+)?function\b", "write 'def name(...):' for a function"),
        (r"^\s*(?://|/\*)|[;)\]}]\s*//", "write '#' before a comment"),
        (r"=>", "write 'lambda x: ...', or a comprehension, for '=>'"),
        (r"&&", "write 'and' for '&&'"),
        (r"\|\|", "write 'or' for '||'"),
        (r"===", "write '==' for '==='"),
        (r"!==", "write '!=' for '!=='"),
        (r"`", "write f'...{value}' for a text in backticks"),
        (r"\w\+\+|\w--", "write '+= 1' or '-= 1'"),
        (r"\belse\s+if\b", "write 'elif'"),
        (r"\bcatch\b", "write 'except Exception as error:' for 'catch'"),
        (r"\bthrow\s", "write 'raise' for 'throw'"),
        (r"\bnew\s+[A-Z]\w*\(", "leave 'new' out"),
        (r"(?<![=!<>])!\s*[\w(]", "write 'not' for '!'"),
        (r"\?\.|\?\?", "write 'a.get(key)' or 'a or b'; Python has neither '?.' nor '??'"),
        (
            r"^\s*(?:if|for|while|else|try)\b.*\{\s*$",
            "end the line with ':' and indent the block, without braces",
        ),
    )
)


_NEWER: Final = tuple(
    (version, re.compile(pattern), fix)
    for version, pattern, fix in (
        ((3, 12), r"^\s*(?:(?:async\s+)?def|class)\s+\w+\s*\[",
         "it has no type parameters such as 'def f[T]' (Python 3.12); leave them out or use 'TypeVar'"),
        ((3, 12), r"^\s*type\s+\w+\s*(?:\[[^\]]*\]\s*)?=",
         "it has no 'type' statement (Python 3.12); write 'Name = ...'"),
        (
            (3, 12),
            r"\b[fF][rR]?([\"'])(?:(?!\1)[^{\n])*\{[^{}\n]*(?:\1|\\)",
            "an f-string cannot have its own quotes or a backslash inside of {...} (Python 3.12 can); use other quotes "
            "there, or a variable",
        ),
        ((3, 14), r"(?<!\w)[tT][\"']", "it has no template strings (Python 3.14); write f'...'"),
    )
)  # fmt: skip
"""Syntax of newer versions of Python than the one that runs programs, and what to write instead."""
_PROSE: Final = re.compile(r"^[\s>*#\d.-]*[A-Za-z][\w'’-]*(?:[,;:!?.]*\s+[A-Za-z'’(][\w'’)-]*){3,}")
_KEYWORD_FIRST: Final = re.compile(
    r"^\s*(?:async|await|assert|case|catch|class|const|def|del|elif|else|except|export|for|from|function|global|if|import"
    r"|interface|lambda|let|match|new|nonlocal|pass|print|raise|return|switch|throw|try|type|var|while|with|yield)\b"
)


def with_fix(problem: Problem, text: str) -> Problem:
    """A syntax error that also says what to write, where its line speaks another language."""
    lines = text.splitlines()
    if problem.kind != "syntax" or not problem.line or problem.line > len(lines):
        return problem
    source = lines[problem.line - 1][:_LONGEST_LINE]
    line = _LITERALS.sub("''", source)
    fix = next((fix for version, sign, fix in _NEWER if sys.version_info < version and sign.search(source)), None)
    if fix is not None:
        version = "{}.{}".format(*sys.version_info)
        return replace(problem, message=f"{problem.message}; programs run on Python {version} here: {fix}")
    if _PROSE.match(line) and not _KEYWORD_FIRST.match(line):
        fix = "this line is text, not Python; send the program alone, or write '#' before the text"
    else:
        fix = next((fix for sign, fix in _SIGNS if sign.search(line)), None)
    return problem if fix is None else replace(problem, message=f"{problem.message}; {fix}")
