"""Phrases that read as translated do not come back, in any text file of the repository."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("bench", "deploy", "design", "docs", "examples", "requirements", "src", "tests")
SKIPPED = {"__pycache__", "node_modules"}

# Written with `_` for a blank and `-` for nothing, so that this file does not contain what it forbids.
PHRASES = (
    "be_had", "is_no_name", "or_never_was", "as_many_processes_as_like", "waits_for_none_then", "a_slip_of_one_letter",
    "one_call_tries", "all_is_as_before", "an_own_root", "have_the_definitions_and_answer", "try-again_of_changing_hands",
    "seed_00[0-9]", "the_seed's", "nothing_waits_for_you", "take_away_a_filter", "is_there_already",
)  # fmt: skip
NAMES = ("Tool-SaidNo", r"\bErr-and(?![a-z])", "_lim-ber", "_has_lonely-_tools")

BLANK = r"[\s#*]+"
FORBIDDEN = re.compile(
    "|".join(
        [*("(?i:" + phrase.replace("_", BLANK) + ")" for phrase in PHRASES), *(name.replace("-", "") for name in NAMES)]
    )
)


def texts() -> Iterator[tuple[Path, str]]:
    paths = [path for path in ROOT.iterdir() if path.is_file() and path.name != "CHANGELOG.md"]  # it has old names
    paths += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in paths:
        if SKIPPED.isdisjoint(path.relative_to(ROOT).parts):
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # not a text


def test_no_phrase_that_reads_as_translated_is_left() -> None:
    found = [
        (str(path.relative_to(ROOT)), text.count("\n", 0, match.start()) + 1, match[0])
        for path, text in texts()
        for match in FORBIDDEN.finditer(text)
    ]

    assert found == []


@pytest.mark.parametrize("phrase", [*PHRASES, *NAMES])
def test_the_pattern_finds_each_phrase_also_across_lines(phrase: str) -> None:
    sample = re.sub(r"\\b|\(\?.*?\)|\[0-9\]$", lambda part: "4" if part[0] == "[0-9]" else "", phrase)
    sample = sample.replace("-", "") if phrase in NAMES else sample.replace("_", "\n    # ")

    assert FORBIDDEN.search(f"x {sample} y")
