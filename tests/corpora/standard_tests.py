"""CPython's own tests inside a program: one program for each class, and a line for each test that does not pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.corpora.case import Case
from tests.corpora.docstrings import STANDARD

FOLDER: Final = STANDARD / "test"
"""Some distributions leave it out."""
_SECONDS: Final = 20.0
_TEXT: Final = """\
import importlib
import unittest
from test import support

support.use_resources = {{}}  # as `python -m test` has it
current_test = ""


class Result(unittest.TestResult):
    def startTest(self, test):
        global current_test
        current_test = test.id()
        super().startTest(test)

    def stopTest(self, test):
        global current_test
        current_test = ""
        super().stopTest(test)


module = importlib.import_module({module!r})
suite = unittest.defaultTestLoader.loadTestsFromName({name!r}, module)
outcome = Result()
suite.run(outcome)
print(outcome.testsRun)
for kind in ("failures", "errors", "skipped", "expectedFailures"):
    for test, words in sorted(getattr(outcome, kind), key=lambda one: one[0].id()):
        print(kind, test.id(), words.strip().splitlines()[-1][:300] if words.strip() else "", sep="\\t")
for test in outcome.unexpectedSuccesses:
    print("unexpectedSuccesses", test.id(), "", sep="\\t")
"""
LEFT_OUT: Final = {
    "test_multiprocessing_fork": "every test starts processes, and it takes minutes",
    "test_multiprocessing_forkserver": "every test starts processes, and it takes minutes",
    "test_multiprocessing_spawn": "every test starts processes, and it takes minutes",
    "test_multiprocessing_main_handling": "every test starts processes",
    "test_regrtest": "tests the runner of the tests, in processes of its own",
    "test_venv": "makes environments on the host with processes",
    "test_ensurepip": "makes environments on the host with processes",
    "test_site": "writes to the user's folder on the host",
    "test_gdb": "starts a debugger",
    "test_cppext": "starts a compiler",
    "test_peg_generator": "starts a compiler",
    "test_tools": "tests files that are not installed",
    "test_distutils": "starts a compiler",
    "test_faulthandler": "crashes processes on purpose",
    "test_crashers": "crashes processes on purpose",
    "test_embed": "starts processes of a test binary",
    "test_bigmem": "needs more memory than any machine here has",
    "test_zipfile64": "writes files of gigabytes",
    "test_largefile": "writes files of gigabytes",
}
"""Modules that run on neither side, with the reason of each."""


def cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("test_*.py")):
        if path.stem not in LEFT_OUT:
            yield from of_module(path.stem)
    for path in sorted(FOLDER.glob("test_*/**/test_*.py")):
        name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        if name.partition(".")[0] not in (*LEFT_OUT, "test_asyncio"):
            yield from of_module(name)


def asyncio_cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("test_asyncio/test_*.py")):
        yield from of_module(f"test_asyncio.{path.stem}")


def of_module(name: str) -> Iterator[Case]:
    try:
        tree = ast.parse((FOLDER / f"{name.replace('.', '/')}.py").read_bytes())
    except SyntaxError:
        return
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and _may_be_tests(node):
            text = _TEXT.format(module=f"test.{name}", name=node.name)
            part = "CPython's tests: asyncio" if name.startswith("test_asyncio.") else "CPython's tests"
            yield Case(corpus=part, name=f"{name}.{node.name}", text=text, seconds=_SECONDS, has_tests=True)


def _may_be_tests(node: ast.ClassDef) -> bool:
    """Whether a class has tests of its own, or takes them from others."""
    has_base = any("Test" in (words := ast.unparse(base)) or "Case" in words for base in node.bases)
    return has_base or (bool(node.bases) and "Test" in node.name)
