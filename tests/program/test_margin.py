"""A program that is indented as a whole, as clients send it that write it into their own code."""

import pytest

from toolfold import Runtime
from toolfold.models import Problem, Program
from toolfold.program.check import check


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("\n      a = 1\n      print(a)\n    ", "\na = 1\nprint(a)\n"),
        ("    if True:\n        print(1)", "if True:\n    print(1)"),
        ("\tprint(1)\n\n\tprint(2)", "print(1)\n\nprint(2)"),
        ('  t = """\n    a\n  b"""', 't = """\n  a\nb"""'),
    ],
)
def test_its_margin_is_taken_away(text: str, moved: str) -> None:
    assert check(text) == Program(text=moved, sent=text)


@pytest.mark.parametrize("text", ["  # a comment\nt = '''\n   \n  a'''", "   \nt = '''\n   \n'''", "print(1)\n"])
def test_a_text_that_python_takes_stays_as_it_is(text: str) -> None:
    assert check(text) == Program(text=text)


def test_its_mistakes_are_told_as_without_the_margin() -> None:
    assert check("    a = 1\n    b = (") == check("a = 1\nb = (")
    assert check("    a = 1\n  b = 2") == Problem(
        kind="syntax", message="unexpected indent", line=1, column=2, source="  a = 1\n ^"
    )


async def test_it_runs_through_every_interface() -> None:
    async with Runtime() as runtime:
        outcome = await runtime.run("\n    total = 0\n    for n in range(3):\n        total += n\n    print(total)\n  ")

    assert (outcome.status, outcome.stdout) == ("finished", "3\n")
