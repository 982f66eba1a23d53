"""Programs that nothing is wrong with; see `valid_programs.txt`."""

import re
from pathlib import Path

import pytest

from toolfold.models import Program
from toolfold.program import Checker

TEXT = Path(__file__).with_name("valid_programs.txt").read_text(encoding="utf-8")
_, *PARTS = re.split(r"^### (.+)\n", TEXT, flags=re.MULTILINE)
PROGRAMS = dict(zip(PARTS[::2], PARTS[1::2], strict=True))


def test_there_are_more_than_300_valid_programs_each_with_its_own_name_and_text() -> None:
    names, texts = set(PARTS[::2]), set(PARTS[1::2])

    assert (len(names), len(texts)) == (len(PARTS) // 2, len(PARTS) // 2)
    assert len(texts) > 300


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_a_valid_program_is_not_rejected(text: str, checker: Checker) -> None:
    checked = checker.check(text)

    assert checked == Program(
        text=text,
        library_set=getattr(checked, "library_set", "bare"),
        preset_names=getattr(checked, "preset_names", ()),
    )


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_a_valid_program_is_not_rejected_with_other_line_ends(ending: str, checker: Checker) -> None:
    rejected = [name for name, text in PROGRAMS.items() if not _passes(text.replace("\n", ending), checker)]

    assert rejected == []


def _passes(text: str, checker: Checker) -> bool:
    return isinstance(checker.check(text), Program)
