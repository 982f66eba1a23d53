"""What two ends of one program mean: the same, different by design, or a defect of ours.

A difference is by design only where CPython was seen to ask the machine for what is not here (`End.did`), where our own
kind of problem is a limit, or where a path of the host is what the error names. Words of a message decide nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from tests.corpora.case import Case, End

BY_DESIGN: Final = ("network", "processes", "display", "host files", "limits")
"""The classes that `docs/limitations/process.md` names."""
WRONG: Final = ("rejected", "failed", "different")
APART: Final = ("told", "told otherwise", "words", "varies")
"""Rejected where CPython fails, for the same reason or another; the same exception with other words; no two runs of
CPython alike."""

_LIMIT_KINDS: Final = frozenset({"wall_clock", "cpu", "memory", "output", "calls", "too_large"})
_LIMITED: Final = frozenset({"MemoryError", "TimeLimit", "Killed"})
_HOST_PATH: Final = re.compile(r"\[Errno (?:1|2|13|20|30)\] [^:]+: '(/[^']*)'(?: -> '[^']*')?")
_OWN_PATH: Final = re.compile(r"/(?:mnt/data|tmp)\b")
_TOLD: Final = {
    "name": {"NameError", "UnboundLocalError"},
    "import": {"ImportError", "ModuleNotFoundError", "OSError", "PermissionError", "URLError", "ConnectionError", "TclError",
               "gaierror", "ConnectionRefusedError", "FileNotFoundError", "error"},
    "syntax": {"SyntaxError", "IndentationError", "TabError", "ValueError"},
    "input": {"EOFError"},
    "arguments": {"TypeError"}, "unknown_argument": {"TypeError"}, "missing_argument": {"TypeError"},
    "unknown_tool": {"NameError", "AttributeError", "ModuleNotFoundError", "ImportError"},
    "reply": {"AttributeError", "KeyError", "TypeError"}, "not_awaited": {"TypeError", "AttributeError"},
}  # fmt: skip
"""The exceptions of CPython that a kind of problem foretells."""
_PASSING: Final = (
    (re.compile(r"0x[0-9a-fA-F]{5,}"), "0x"),
    (re.compile(r"[^\s'\"(<]*/(?:site-packages|site|lib/python3\.\d+|python3\.\d+)/"), "/lib/"),
    (re.compile(r"[^\s'\"(<]*/(?:data|corpora-\w+)\b"), "/data"),
    (re.compile(r"<program>|[^\s'\"(<]*/program\.py"), "<program>"),
    (re.compile(r"\bin \d+\.\d+ ?s\b|\b\d+\.\d+ seconds?\b"), "in time"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    verdict: str
    reason: str = ""
    """What CPython did, or which of our errors it was."""
    tests: dict[str, str] = field(default_factory=dict)
    """Of CPython's own tests: those that end otherwise, with the class of each."""


def judge(outside: End, inside: End, case: Case | None = None) -> Judgement:
    if outside.ending == inside.ending and same_text(outside.stdout, inside.stdout):
        is_equal = outside.ending in ("finished", "SystemExit") or same_text(outside.words, inside.words)
        return Judgement(verdict="same" if is_equal else "words")
    if inside.ending == "rejected":
        return _of_rejected(outside, inside)
    for end in (inside, outside):
        if end.ending in _LIMITED or end.kind in _LIMIT_KINDS:
            return Judgement(verdict="limits", reason=end.ending)
    if case is not None and case.has_tests and outside.ending == inside.ending == "finished":
        return _of_tests(outside, inside)
    kind, reason = _asked(outside, "")
    if not kind:
        kind, reason = _of_path(inside)
    wrong = "different" if inside.ending == "finished" else "failed"
    return Judgement(verdict=kind or wrong, reason=reason)


def same_text(one: str, other: str) -> bool:
    # Only so much of an output is in the outcome, and it says so there.
    if len(one) > 50_000:
        return lasting(one[:20_000])[:15_000] == lasting(other[:20_000])[:15_000]
    return lasting(one) == lasting(other)


def lasting(text: str) -> str:
    """A text without what changes from run to run: addresses, folders, durations."""
    for pattern, instead in _PASSING:
        text = pattern.sub(instead, text)
    return text.rstrip()


def _of_rejected(outside: End, inside: End) -> Judgement:
    if outside.ending != "finished":
        # What CPython cannot finish either is told earlier here.
        is_it = outside.ending in _TOLD.get(inside.kind, ())
        return Judgement(verdict="told" if is_it else "told otherwise", reason=f"{inside.kind} for {outside.ending}")
    kind, reason = _asked(outside, "") if inside.kind == "import" else ("", "")
    return Judgement(verdict=kind if kind in ("network", "processes", "display") else "rejected", reason=reason)


def _of_tests(outside: End, inside: End) -> Judgement:
    """Each test that ends otherwise needs a reason of its own."""
    there, here = _results(outside.stdout), _results(inside.stdout)
    found: dict[str, str] = {}
    for test in sorted(there.keys() | here.keys()):
        if not same_text(there.get(test, ""), here.get(test, "")):
            kind, _ = _asked(outside, test)
            if not kind:
                kind, _ = _of_path(End(stdout="", ending="", words=here.get(test, "")))
            found[test] = kind or f"different: {here.get(test, 'passed')} (CPython: {there.get(test, 'passed')})"
    others = [kind for kind in found.values() if kind.startswith("different")]
    verdict = "different" if others else next(iter(found.values()), "different")
    return Judgement(verdict=verdict, reason=f"{len(found)} tests", tests=found)


def _results(text: str) -> dict[str, str]:
    """`error<TAB>test<TAB>words` on each line, for tests that did not pass."""
    rows = (line.split("\t", 2) for line in text.splitlines())
    return {row[1]: f"{row[0]}: {row[2]}" for row in rows if len(row) == 3}


def _asked(end: End, test: str) -> tuple[str, str]:
    """The class that the program asked for; of a test, what that test or the setting up of its class asked for."""
    name = "" if test.startswith("setUp") else test.partition(" ")[0]
    for kind, where, detail in end.did:
        if not test or where == name:
            return kind, detail
    return "", ""


def _of_path(inside: End) -> tuple[str, str]:
    found = _HOST_PATH.search(inside.words)
    is_host = found is not None and not _OWN_PATH.match(found[1])
    return ("host files", found[1]) if found is not None and is_host else ("", "")
