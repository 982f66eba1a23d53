"""The table and the file that a run leaves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from tests.corpora.judge import BY_DESIGN, WRONG
from tests.corpora.run import Tally

_LIBRARIES: Final = ("numpy", "pandas", "scipy", "scikit-learn", "sympy", "mpmath", "matplotlib")
_COLUMNS: Final = ("programs", "same", *BY_DESIGN, "varies", *WRONG)
_TITLES: Final = {
    "rejected": "rejected wrongly", "failed": "failed wrongly", "different": "silently different",
    "varies": "varies in CPython",
}  # fmt: skip
_SHOWN: Final = 3


def lines(tally: Tally) -> Iterator[str]:
    yield f"libraries: {', '.join(library_set())}"
    yield " | ".join(["corpus", *(_TITLES.get(column, column) for column in _COLUMNS)])
    total: Counter[str] = Counter()
    for corpus, counter in tally.counts.items():
        total.update(counter)
        yield _row(corpus, counter)
    yield _row("all", total)
    for corpus, verdicts in tally.examples.items():
        for verdict in WRONG:
            for example in verdicts.get(verdict, ())[:_SHOWN]:
                ours = example["toolfold"]
                words = " ".join(f"{ours['ending']}: {ours['words']}".split())[:160]
                yield f"{_TITLES[verdict]}: {corpus}, {example['name']}: {words}"


def write(tally: Tally, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"libraries": library_set(), "counts": tally.counts, "examples": tally.examples}
    path.write_text(json.dumps(document, indent=1), "utf-8", "surrogatepass")


def library_set() -> list[str]:
    return [f"{name} {metadata.version(name)}" for name in _LIBRARIES]


def _row(corpus: str, counter: Counter[str]) -> str:
    return " | ".join([corpus, str(counter.total()), *(str(counter[column]) for column in _COLUMNS[1:])])
