"""A part of `make test-corpora` from what is always there, and the rules by which it judges."""

import itertools
from collections.abc import Iterator

import pytest

from tests.corpora import docstrings, standard_tests
from tests.corpora.case import Case, End
from tests.corpora.judge import judge, lasting
from tests.corpora.run import Tally, each_once, run_case
from tests.corpora.sides import inside, outside
from toolfold.errors import EngineUnavailable

MODULES = ("bisect.py", "collections", "difflib.py", "fractions.py", "statistics.py", "textwrap.py", "ipaddress.py")
TESTS = ("test_bisect", "test_heapq", "test_textwrap", "test_string", "test_fractions")
MOST = 120
FINISHED = End(stdout="1\n", ending="finished")


def _cases() -> Iterator[Case]:
    yield from docstrings.of_modules(*MODULES)
    for name in TESTS:
        if (standard_tests.FOLDER / f"{name}.py").exists():
            yield from standard_tests.of_module(name)


@pytest.mark.long
async def test_examples_and_tests_of_the_standard_library_end_here_as_in_cpython() -> None:
    tally = Tally()

    try:
        async with inside() as here, outside(libraries=()) as plain, outside(1, libraries=()) as other:
            for case in itertools.islice(each_once(_cases()), MOST):
                await run_case(case, plain, other, here, tally)
    except EngineUnavailable as reason:
        pytest.skip(f"not proved here: programs of the standard library ({reason})")

    assert {name: dict(verdicts) for name, verdicts in tally.examples.items() if any(verdicts.values())} == {}
    assert tally.total > 40


@pytest.mark.parametrize(
    ("outside", "inside", "verdict"),
    [
        (FINISHED, FINISHED, "same"),
        (FINISHED, End(stdout="2\n", ending="finished"), "different"),
        (FINISHED, End(stdout="1\n", ending="KeyError", words="1"), "failed"),
        (FINISHED, End(stdout="", ending="rejected", words="'x' is not defined"), "rejected"),
        (End(stdout="", ending="NameError"), End(stdout="", ending="rejected", words="'x' is not defined"), "same"),
        (FINISHED, End(stdout="", ending="rejected", words="'a' cannot work here: there is no network"), "network"),
        (FINISHED, End(stdout="", ending="rejected", words="no process can be started"), "processes"),
        (FINISHED, End(stdout="", ending="rejected", words="there is no display"), "display"),
        (FINISHED, End(stdout="", ending="OSError", words="[Errno 30] Read-only file system: '/x'"), "host files"),
        (FINISHED, End(stdout="", ending="MemoryError"), "limits"),
        (End(stdout="", ending="KeyError"), FINISHED, "different"),
    ],
)
def test_two_ends_of_a_program_are_judged(outside: End, inside: End, verdict: str) -> None:
    assert judge(outside, inside) == verdict


def test_addresses_and_folders_do_not_count() -> None:
    text = "<object at 0x7f3a2c1d> /venv/lib/python3.11/site-packages/numpy/x.py"

    assert lasting(text) == "<object at 0x> /lib/numpy/x.py"


def test_a_docstring_becomes_a_program_that_prints_what_a_prompt_shows() -> None:
    (case,) = [case for case in docstrings.of_modules("textwrap.py") if case.name == "textwrap:shorten"]

    assert case.text == (
        "import textwrap\n"
        "def shown(value):\n    if value is not None:\n        print(repr(value))\n\n"
        'shown((textwrap.shorten("Hello  world!", width=12)))\n'
        'shown((textwrap.shorten("Hello  world!", width=11)))\n'
    )
