"""The table of a run, with examples of whatever is not the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from typing import Final

from tests.corpora.judge import APART, BY_DESIGN, WRONG
from tests.corpora.results import Results, Row

_LIBRARIES: Final = ("numpy", "pandas", "scipy", "scikit-learn", "sympy", "mpmath", "matplotlib")
_COLUMNS: Final = ("programs", "same", *BY_DESIGN, *APART, *WRONG)
_TITLES: Final = {
    "told": "rejected here, fails in CPython", "told otherwise": "the same for another reason",
    "words": "same exception, other words", "varies": "varies in CPython", "rejected": "rejected wrongly",
    "failed": "failed wrongly", "different": "silently different",
}  # fmt: skip
_SHOWN: Final = 3


def lines(results: Results) -> Iterator[str]:
    yield f"libraries: {', '.join(library_set())}"
    yield " | ".join(["corpus", *(_TITLES.get(column, column) for column in _COLUMNS)])
    total: Counter[str] = Counter()
    for corpus, counter in results.counts.items():
        total.update(counter)
        yield _row(corpus, counter)
    yield _row("all", total)
    trees = Counter(row["tree"] for row in results.rows.values())
    yield "trees: " + ", ".join(f"{name}: {count}" for name, count in trees.most_common())
    again = Counter(row["reason"] for row in results.of("same") if row["reason"])
    yield "same only when repeated: " + (", ".join(f"{name}: {count}" for name, count in again.items()) or "none")
    yield from _tests(results)
    for verdict in (*BY_DESIGN, *APART, *WRONG):
        yield from _examples(verdict, list(results.of(verdict)))


def library_set() -> list[str]:
    return [f"{name} {metadata.version(name)}" for name in _LIBRARIES]


def _tests(results: Results) -> Iterator[str]:
    """Of CPython's own tests, how many end otherwise, and why."""
    for corpus in sorted({row["corpus"] for row in results.rows.values() if "run" in row}):
        rows = [row for row in results.rows.values() if row["corpus"] == corpus]
        kinds = Counter(kind.partition(":")[0] for row in rows for kind in row.get("tests", {}).values())
        named = ", ".join(f"{name}: {count}" for name, count in kinds.most_common()) or "none"
        yield f"{corpus}: {sum(row.get('run', 0) for row in rows)} tests; those that end otherwise: {named}"


def _examples(verdict: str, rows: list[Row]) -> Iterator[str]:
    """Three of each reason, all of what is wrong."""
    seen: Counter[str] = Counter()
    for row in rows:
        seen[row["corpus"]] += 1
        if verdict in WRONG or seen[row["corpus"]] <= _SHOWN:
            there, ours = row["cpython"], row["toolfold"]
            words = " ".join(f"{ours['ending']}: {ours['words']}".split())[:160]
            title = _TITLES.get(verdict, verdict)
            yield f"{title}: {row['corpus']}, {row['name']} ({row['reason']}; CPython {there['ending']}): {words}"


def _row(corpus: str, counter: Counter[str]) -> str:
    return " | ".join([corpus, str(counter.total()), *(str(counter[column]) for column in _COLUMNS[1:])])
