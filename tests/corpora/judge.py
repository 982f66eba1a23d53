"""What two ends of one program mean: the same, different by design, or a defect of ours."""

from __future__ import annotations

import re
from typing import Final, Literal

from tests.corpora.case import End

Verdict = Literal["same", "network", "processes", "display", "host files", "limits", "rejected", "failed", "different"]
BY_DESIGN: Final = ("network", "processes", "display", "host files", "limits")
"""The classes that `docs/limitations/process.md` names."""
WRONG: Final = ("rejected", "failed", "different")

_SIGNS: Final = (
    ("network", r"there is no network|no network|urlopen error|Name or service not known|socket"),
    ("processes", r"no process can be started|cannot fork|can't start new process|Operation not permitted: '.*bin"),
    ("display", r"there is no display|no display name|could not connect to display"),
    ("limits", r"^(time|memory|limit|cpu)|MemoryError|time limit|memory limit|No space left|File too large"),
    ("host files", r"Read-only file system|Permission denied: '/|No such file or directory: '/|/dev/|/proc/"),
)
_PASSING: Final = (
    (re.compile(r"0x[0-9a-fA-F]{5,}"), "0x"),
    (re.compile(r"[^\s'\"(<]*/(?:site-packages|site|lib/python3\.\d+|python3\.\d+)/"), "/lib/"),
    (re.compile(r"[^\s'\"(<]*/(?:data|corpora-\w+)\b"), "/data"),
    (re.compile(r'(?<=program\.py", line )\d+'), "0"),
    (re.compile(r"<program>|[^\s'\"(<]*/program\.py"), "<program>"),
    (re.compile(r"\bin \d+\.\d+ ?s\b|\b\d+\.\d+ seconds?\b"), "in time"),
)


def judge(outside: End, inside: End, text: str = "") -> Verdict:
    if _is_same(outside, inside):
        return "same"
    said = f"{inside.ending}: {inside.words}"
    for name, pattern in _SIGNS:
        if inside.ending != "finished" and re.search(pattern, said):
            return name
    if inside.ending in ("FileNotFoundError", "PermissionError") and "multiprocessing" in text:
        return "processes"  # its semaphores need shared memory
    if inside.ending == "rejected":
        # What CPython cannot finish either is told earlier here.
        return "rejected" if outside.ending == "finished" else "same"
    if outside.ending in ("TimeLimit", "Killed") or "TimeLimit" in inside.ending:
        return "limits"
    return "different" if inside.ending == "finished" else "failed"


def lasting(text: str) -> str:
    """A text without what changes from run to run: addresses, folders, durations."""
    for pattern, instead in _PASSING:
        text = pattern.sub(instead, text)
    return text.rstrip()


def _is_same(outside: End, inside: End) -> bool:
    if outside.ending != inside.ending:
        return False
    # Only so much of an output is in the outcome, and it says so there.
    if len(outside.stdout) > 50_000:
        return lasting(outside.stdout[:20_000])[:15_000] == lasting(inside.stdout[:20_000])[:15_000]
    return lasting(outside.stdout) == lasting(inside.stdout)
