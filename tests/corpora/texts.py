"""Whole files of the standard library and of the installed libraries, through the check alone.

They are modules that work, so whatever the check says of a name or a call in them is a false alarm, unless plain
CPython, which then runs them as a program, fails as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Final

from tests.corpora.case import Case, End
from tests.corpora.docstrings import SITE, STANDARD
from toolfold.models import Problem
from toolfold.program import Checker

CORPUS: Final = "texts, checked only"
_LARGEST: Final = 300_000
_SECONDS: Final = 5.0


def cases() -> Iterator[Case]:
    for root in (STANDARD, SITE):
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).parts
            text = path.read_text("utf-8", "replace")
            if "site-packages" not in parts and len(text) < _LARGEST and _is_plain(text):
                package = ".".join(parts[:-1])
                yield Case(corpus=CORPUS, name="/".join(parts), text=text, package=package, seconds=_SECONDS)


def check(case: Case, checker: Checker) -> End:
    checked = checker.check(case.text)
    if not isinstance(checked, Problem):
        return End(stdout="", ending="finished")
    return End(stdout="", ending="rejected", kind=checked.kind, words=f"line {checked.line}: {checked.message}")


def _is_plain(text: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(text, "text", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
