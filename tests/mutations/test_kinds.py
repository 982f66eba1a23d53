"""Mistakes of 139 kinds, written over right programs by somebody who had not seen the check.

`kinds.txt` has up to ten of each: the program they are made of, its lines that differ, and after `=` what the right form
prints where that is not what the program prints.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.mutations.kind_programs import PROGRAMS
from tests.mutations.kind_tools import TOOLS
from toolfold import Outcome, Runtime

pytestmark = pytest.mark.long

_, *PARTS = re.split(
    r"^### (.+)\n", Path(__file__).with_name("kinds.txt").read_text(encoding="utf-8"), flags=re.MULTILINE
)
MUTANTS = dict(zip(PARTS[::2], PARTS[1::2], strict=True))
SHARDS = 4


def test_there_are_ten_of_most_of_139_kinds() -> None:
    counts = Counter(name.split(" | ")[0] for name in MUTANTS)

    assert (len(counts), len(MUTANTS), min(counts.values())) == (139, 1390, 10)


@pytest.mark.parametrize("shard", range(SHARDS))
async def test_most_mistakes_are_told_before_the_first_call_or_do_no_harm(shard: int) -> None:
    verdicts: dict[str, str] = {}
    async with Runtime(TOOLS) as runtime:
        right = {name: (await runtime.run(text)).stdout for name, text in PROGRAMS.items()}
        for name, edits in list(MUTANTS.items())[shard::SHARDS]:
            text, stdout = _mutant(name, edits, right)
            verdicts[name] = _verdict(await runtime.run(text), stdout)

    counts = Counter(verdict.partition(":")[0] for verdict in verdicts.values())
    bad = [f"{name}: {verdict}" for name, verdict in verdicts.items() if verdict not in ("told", "right")]
    assert [line for line in bad if "without a line" in line] == []
    assert [line for line in bad if ": silent" in line] == []
    assert counts["told"] + counts["right"] >= 0.93 * len(verdicts), "\n".join(bad)


def _mutant(name: str, edits: str, right: dict[str, str]) -> tuple[str, str]:
    """The text, and what a right program prints in its place."""
    base = name.split(" | ")[1]
    lines, stdout, shift = PROGRAMS[base].lstrip("\n").split("\n"), right[base], 0
    for edit in re.split(r"^@ ", edits, flags=re.MULTILINE)[1:]:
        place, *added = edit.rstrip("\n").split("\n")
        if added and added[-1].startswith("= "):
            stdout = str(json.loads(added.pop()[2:]))
        start, end = map(int, place.split())
        replacement = [line[1:] for line in added]
        lines[start + shift : end + shift] = replacement
        shift += len(replacement) - (end - start)
    return "\n".join(lines), stdout


def _verdict(outcome: Outcome, right: str) -> str:
    if outcome.status == "rejected":
        assert outcome.problem is not None
        return "told" if outcome.problem.line is not None else "told without a line"
    if outcome.status == "finished":
        if outcome.stdout == right:
            return "right"
        return "hint" if any(hint.startswith("line ") for hint in outcome.hints) else f"silent: {outcome.stdout!r}"
    return "late" if outcome.calls else "told"
