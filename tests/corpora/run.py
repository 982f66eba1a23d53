"""Runs cases on both sides, and keeps count."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.corpora.case import Case, End
from tests.corpora.judge import WRONG, Verdict, judge
from tests.corpora.sides import Inside, Outside

EXAMPLES = 20
AGAIN = 6


@dataclass(slots=True)
class Tally:
    """What became of the programs of each corpus, with the first examples of what is wrong."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    examples: dict[str, dict[str, list[dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def add(self, case: Case, verdict: str, here: End, there: End) -> None:
        self.counts[case.corpus][verdict] += 1
        found = self.examples[case.corpus][verdict]
        if verdict != "same" and (verdict in WRONG or len(found) < EXAMPLES):
            found.append({"name": case.name, "text": case.text, "cpython": asdict(there), "toolfold": asdict(here)})

    @property
    def wrong(self) -> int:
        return sum(counter[verdict] for counter in self.counts.values() for verdict in WRONG)

    @property
    def total(self) -> int:
        return sum(counter.total() for counter in self.counts.values())


async def run_case(case: Case, plain: Outside, other: Outside, here: Inside, tally: Tally) -> None:
    there, ours = await plain.run(case), await here.run(case)
    verdict: Verdict | str = judge(there, ours, case.text)
    if verdict == "different" or (verdict == "failed" and there.ending != "finished"):
        # Another hash seed and other moments: what CPython itself does not repeat cannot be compared.
        for _ in range(AGAIN):
            if judge(there, await other.run(case)) != "same":
                verdict = "varies"
                break
    tally.add(case, verdict, ours, there)


def each_once(cases: Iterable[Case]) -> Iterator[Case]:
    """Cases without those whose text came before."""
    seen: set[bytes] = set()
    for case in cases:
        key = hashlib.sha256(f"{case.text}\0{sorted(case.tools)}".encode("utf-8", "surrogatepass")).digest()
        if key not in seen:
            seen.add(key)
            yield case
