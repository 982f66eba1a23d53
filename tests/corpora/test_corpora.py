"""A part of `make test NAME=corpora` from what is always there, and the rules by which it judges."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.corpora import docstrings, standard_tests
from tests.corpora.case import Case, End
from tests.corpora.judge import judge, lasting
from tests.corpora.results import Results, Row
from tests.corpora.run import run_case, seeded_text
from tests.corpora.sides import inside, outside
from toolfold.errors import EngineUnavailable

MODULES = ("bisect.py", "collections", "difflib.py", "fractions.py", "statistics.py", "textwrap.py", "ipaddress.py")
TESTS = (
    "test_bisect", "test_heapq", "test_textwrap", "test_string", "test_fractions", "test_json.test_decode",
    "test_asyncio.test_locks", "test_asyncio.test_queues", "test_asyncio.test_timeouts",
)  # fmt: skip
MOST = 140
FINISHED = End(stdout="1\n", ending="finished")
TESTED = Case(corpus="tests", name="C", text="", has_tests=True)


def _cases() -> Iterator[Case]:
    yield from docstrings.of_modules(*MODULES)
    for name in TESTS:
        if (standard_tests.FOLDER / f"{name.replace('.', '/')}.py").exists():
            yield from standard_tests.of_module(name)


@pytest.mark.long
async def test_examples_and_tests_of_the_standard_library_end_here_as_in_cpython() -> None:
    rows: list[Row] = []

    try:
        async with inside() as here, outside(libraries=()) as plain:
            rows.extend([await run_case(case, plain, here) for case in itertools.islice(_cases(), MOST)])
    except EngineUnavailable as reason:
        pytest.skip(f"not proved here: programs of the standard library ({reason})")

    assert [row for row in rows if row["verdict"] != "same"] == []
    assert len(rows) > 40


def _asked(*what: tuple[str, str, str]) -> End:
    return End(stdout="1\n", ending="finished", did=what)


def _failed(name: str, words: str = "") -> End:
    return End(stdout="1\n", ending=name, words=words, kind="exception")


def _rejected(kind: str) -> End:
    return End(stdout="", ending="rejected", words="'x' cannot work here: there is no network", kind=kind)


SOCKET = ("network", "", "socket.connect")
SYSTEM = ("processes", "", "os.system")


@pytest.mark.parametrize(
    ("outside", "inside", "verdict"),
    [
        (FINISHED, FINISHED, "same"),
        (FINISHED, End(stdout="2\n", ending="finished"), "different"),
        (FINISHED, _failed("KeyError", "1"), "failed"),
        (FINISHED, _failed("OSError", "no socket, no network, no process can be started"), "failed"),
        (FINISHED, _rejected("name"), "rejected"),
        (FINISHED, _rejected("import"), "rejected"),
        (_asked(SOCKET), _rejected("import"), "network"),
        (_asked(SOCKET), _rejected("name"), "rejected"),
        (_asked(SYSTEM), _failed("PermissionError"), "processes"),
        (_asked(("display", "", "tkinter")), _rejected("import"), "display"),
        (End(stdout="", ending="NameError"), _rejected("name"), "told"),
        (End(stdout="", ending="KeyError"), _rejected("name"), "told otherwise"),
        (FINISHED, _failed("OSError", "[Errno 30] Read-only file system: '/x'"), "host files"),
        (FINISHED, _failed("OSError", "[Errno 30] Read-only file system: '/mnt/data/x'"), "failed"),
        (FINISHED, _failed("MemoryError"), "limits"),
        (FINISHED, End(stdout="", ending="wall_clock", kind="wall_clock"), "limits"),
        (End(stdout="1\n", ending="TimeLimit"), FINISHED, "limits"),
        (End(stdout="", ending="KeyError"), FINISHED, "different"),
        (_failed("KeyError", "1"), _failed("KeyError", "2"), "words"),
    ],
)
def test_two_ends_of_a_program_are_judged(outside: End, inside: End, verdict: str) -> None:
    assert judge(outside, inside).verdict == verdict


def test_each_test_of_a_class_needs_a_reason_of_its_own() -> None:
    there = End(stdout="2\n", ending="finished", did=(("processes", "C.test_a", "os.fork"),))
    here = End(stdout="2\nerrors\tC.test_a\tOSError\nerrors\tC.test_b\tOSError\n", ending="finished")

    found = judge(there, here, TESTED)

    assert found.verdict == "different"
    assert found.tests == {
        "C.test_a": "processes",
        "C.test_b": "different: errors: OSError (CPython: passed)",
    }


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


def test_seeds_are_set_after_what_must_come_first() -> None:
    text = '"""Words."""\nfrom __future__ import annotations\nimport random\n'

    assert seeded_text(text).splitlines()[2:] == [
        "import random as _random; _random.seed(0); _random.seed = lambda *_, **__: None",
        "import random",
    ]


async def test_cpython_tells_what_a_program_asked_of_the_machine() -> None:
    text = "import os, socket\nsocket.socket()\nos.system('true')\nopen('/etc/hostname')\nopen('own', 'w')"

    async with outside(libraries=()) as plain:
        end = await plain.run(Case(corpus="own", name="asks", text=text))

    assert (end.ending, [kind for kind, _, _ in end.did]) == ("finished", ["network", "processes", "host files"])


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    Results(path).add({"key": "a", "corpus": "own", "verdict": "same"})
    with path.open("a") as file:
        file.write('\n{"key": "b", "cor')

    results = Results(path)
    results.add({"key": "c", "corpus": "own", "verdict": "failed"})

    assert (sorted(Results(path).rows), results.wrong) == (["a", "c"], 1)
