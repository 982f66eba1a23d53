"""Mistakes planted into programs: caught before the first call, or harmless, and never silent."""

from collections import Counter

import pytest

from tests.mutations.mutators import mutants
from tests.mutations.programs import PROGRAMS, TOOLS
from toolfold import Outcome, Runtime

pytestmark = pytest.mark.long


async def test_the_programs_are_right_as_they_stand() -> None:
    async with Runtime(TOOLS) as runtime:
        outcomes = [await runtime.run(text) for text in PROGRAMS.values()]

    assert [(outcome.status, bool(outcome.stdout)) for outcome in outcomes] == [("finished", True)] * len(PROGRAMS)


async def test_nineteen_of_twenty_mistakes_are_told_before_the_first_call_or_do_no_harm_and_none_is_silent() -> None:
    async with Runtime(TOOLS) as runtime:
        right = {name: (await runtime.run(text)).stdout for name, text in PROGRAMS.items()}
        seen = [(kind, text, _verdict(await runtime.run(text), right[name])) for kind, name, text in mutants(PROGRAMS)]

    counts = Counter(verdict for _, _, verdict in seen)
    late = [f"{kind}: {verdict}\n{text}" for kind, text, verdict in seen if verdict not in ("told", "right")]
    assert [one for one in late if ": silent" in one] == []
    assert [one for one in late if ": told without a line" in one] == []
    assert counts["told"] + counts["right"] >= 0.95 * len(seen), "\n\n".join(late)
    assert len(seen) >= 600


def _verdict(outcome: Outcome, right: str) -> str:
    if outcome.status == "rejected":
        assert outcome.problem is not None
        return "told" if outcome.problem.line is not None else "told without a line"
    if outcome.status == "finished":
        return "right" if outcome.stdout == right else f"silent: {outcome.stdout!r}"
    return "late" if outcome.calls else "told"
