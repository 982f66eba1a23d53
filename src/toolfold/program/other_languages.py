"""Signs of another language in a line that Python refuses, and what Python writes instead: words for an error text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from toolfold.models import Problem

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


def with_fix(problem: Problem, text: str) -> Problem:
    """A syntax error that also says what to write, where its line speaks another language."""
    lines = text.splitlines()
    if problem.kind != "syntax" or not problem.line or problem.line > len(lines):
        return problem
    line = _LITERALS.sub("''", lines[problem.line - 1][:_LONGEST_LINE])
    fix = next((fix for sign, fix in _SIGNS if sign.search(line)), None)
    return problem if fix is None else replace(problem, message=f"{problem.message}; {fix}")
