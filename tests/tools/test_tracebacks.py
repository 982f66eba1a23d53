"""Whoever wrote a tool sees where it failed; the program that called it does not."""

from pathlib import Path

import pytest

import toolfold
from toolfold.errors import ToolFailed
from toolfold.tools.error_text import MAX_TRACEBACK_CHARACTERS as LONGEST_CHARACTERS
from toolfold.tools.error_text import traceback_of

HERE = Path(__file__)


def fail(text: str) -> None:
    """A tool with a mistake."""
    raise RuntimeError(text)


@pytest.mark.long
def test_the_record_of_a_failed_call_has_its_traceback_and_the_program_has_not() -> None:
    outcome = toolfold.run_sync("await fail(text='no such row')", tools=[fail])

    line = fail.__code__.co_firstlineno + 2
    assert outcome.calls[0].traceback == (
        f'Traceback (most recent call last):\n  File "{HERE}", line {line}, in fail\n'
        "    raise RuntimeError(text)\nRuntimeError: no such row\n"
    )
    assert outcome.stderr == (
        'Traceback (most recent call last):\n  File "<program>", line 1, in __main__\n'
        "    await fail(text='no such row')\nToolError: 'fail' failed: no such row\n"
    )
    assert "traceback" not in outcome.to_dict()["calls"][0]


def test_an_error_without_code_of_the_tool_has_none() -> None:
    assert traceback_of(ToolFailed("the server says no")) == ""


def test_words_that_utf_8_does_not_have_are_written_in_letters_before_a_traceback_is_cut() -> None:
    text = ""

    try:
        fail("\ud800" * LONGEST_CHARACTERS)
    except RuntimeError as error:
        text = traceback_of(error)

    assert (len(text), text[-13:]) == (LONGEST_CHARACTERS + 1, "\\ud800\\ud800\n")


def test_a_secret_is_masked_and_a_long_traceback_keeps_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "abcdefgh-12345")
    text = ""

    try:
        fail("x" * LONGEST_CHARACTERS + " abcdefgh-12345")
    except RuntimeError as error:
        text = traceback_of(error)

    assert (len(text), text[:2], text[-5:]) == (LONGEST_CHARACTERS + 1, "…x", " ***\n")
