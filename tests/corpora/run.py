"""Runs one case on both sides, and again where that tells more."""

from __future__ import annotations

import ast
import time
from dataclasses import asdict, replace
from typing import Final

from tests.corpora.case import Case, End
from tests.corpora.judge import WRONG, Judgement, judge
from tests.corpora.results import Row
from tests.corpora.sides import Inside, Outside

AGAIN: Final = 12
"""A program that tosses one coin ends the same way so often in one run out of 4,096."""
_PATIENT_SECONDS: Final = 60.0
_SEED: Final = "import random as _random; _random.seed(0); _random.seed = lambda *_, **__: None\n"
_SEED_NUMPY: Final = (
    "import numpy as _numpy; _numpy.random.seed(0); _generator = _numpy.random.default_rng; "
    "_numpy.random.default_rng = lambda seed=0: _generator(seed)\n"
)
_SHOWN: Final = 3000


async def run_case(case: Case, plain: Outside, here: Inside, tree: str = "") -> Row:
    began = time.monotonic()
    there, ours = await plain.run(case), await here.run(case)
    found = judge(there, ours, case)
    if found.verdict == "limits" and (there.ending == "TimeLimit") != (ours.kind in ("wall_clock", "cpu")):
        # The machine may be busy: what one side finishes in time is given more of it.
        case = replace(case, seconds=_PATIENT_SECONDS)
        there, ours = await plain.run(case), await here.run(case)
        found = judge(there, ours, case)
    if found.verdict in ("different", "failed", "words"):
        found, there, ours = await _settled(case, found, there, ours, plain, here)
    return row(case, found, there, ours, tree, time.monotonic() - began)


async def _settled(
    case: Case, found: Judgement, there: End, ours: End, plain: Outside, here: Inside
) -> tuple[Judgement, End, End]:
    """What CPython itself does not repeat cannot be compared, unless its random numbers can be fixed."""
    if case.has_tests:
        return await _settled_tests(case, found, there, ours, plain, here)
    seeded = replace(case, text=seeded_text(case.text))
    there_seeded, ours_seeded = await plain.run(seeded), await here.run(seeded)
    again = judge(there_seeded, ours_seeded, case) if there_seeded.ending == there.ending else found
    if again.verdict == "same":
        return Judgement(verdict="same", reason="seeded"), there, ours
    if await _repeats(case, there, plain):
        second = await here.run(case)
        if judge(there, second, case).verdict == "same":
            return Judgement(verdict="same", reason="second run"), there, second
        return found, there, ours
    if there_seeded.ending == there.ending and await _repeats(seeded, there_seeded, plain):
        return found, there_seeded, ours_seeded
    return Judgement(verdict="varies"), there, ours


def seeded_text(text: str) -> str:
    """The program with its random numbers fixed, after what must come first in a file."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return text
    lines = text.splitlines(keepends=True)
    last = 0
    for node in body:
        is_words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_words and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        last = node.end_lineno or last
    seeds = _SEED + (_SEED_NUMPY if "numpy" in text else "")
    return "".join([*lines[:last], seeds, *lines[last:]])


async def _repeats(case: Case, there: End, plain: Outside) -> bool:
    for _ in range(AGAIN):
        if judge(there, await plain.run(case, is_shaken=True)).verdict != "same":
            return False
    return True


async def _settled_tests(
    case: Case, found: Judgement, there: End, ours: End, plain: Outside, here: Inside
) -> tuple[Judgement, End, End]:
    """Only tests that end otherwise twice."""
    second_there, second_ours = await plain.run(case), await here.run(case)
    again = judge(second_there, second_ours, case)
    if again.verdict not in WRONG or found.verdict not in WRONG:
        return replace(again, reason="second run"), second_there, second_ours
    wrong = {test: kind for test, kind in again.tests.items() if kind == found.tests.get(test)}
    if found.tests and not any(kind.startswith("different") for kind in wrong.values()):
        return replace(again, verdict=next(iter(wrong.values()), "varies"), tests=wrong), second_there, second_ours
    return replace(again, tests=wrong), second_there, second_ours


def row(case: Case, found: Judgement, there: End, ours: End, tree: str, seconds: float) -> Row:
    result: Row = {
        "key": case.key, "corpus": case.corpus, "name": case.name, "verdict": found.verdict, "reason": found.reason,
        "tree": tree, "seconds": round(seconds, 2),
    }  # fmt: skip
    if found.tests:
        result["tests"] = found.tests
    if case.has_tests:
        result["run"] = _count(there.stdout)
    if found.verdict != "same":
        result |= {"cpython": _shown(there), "toolfold": _shown(ours)}
    if found.verdict in WRONG:
        result["text"] = case.text[:20_000]
    return result


def _count(text: str) -> int:
    first = text.partition("\n")[0]
    return int(first) if first.isdigit() else 0


def _shown(end: End) -> dict[str, object]:
    shown = asdict(end)
    return {**shown, "stdout": end.stdout[:_SHOWN], "did": shown["did"][:10]}
