"""The short way from text to code must give what the long way gives, or nothing."""

import ast
import types
from pathlib import Path

import pytest

from toolfold_guest.program.compiler import FILENAME, compile_in_parts, compile_program

TESTS = Path(__file__).parents[1]
PROGRAMS = sorted([*TESTS.glob("programs/*.py"), *TESTS.glob("accents/*/*.py")])


def _facts(code: types.CodeType | None) -> object:
    """All that a run or a traceback can see of a code object."""
    if code is None:
        return None
    constants = tuple(_facts(item) if isinstance(item, types.CodeType) else item for item in code.co_consts)
    return code.co_name, code.co_code, constants, code.co_names, code.co_flags, tuple(code.co_positions())


def _long_way(text: str) -> tuple[object, ...]:
    """What the long way gives; its one code for a text that ends in a statement, cut before that statement."""
    body, last = compile_program(text)
    if last is not None:
        return _facts(body), _facts(last)
    *first, final = ast.parse(text).body
    return _facts(_compiled(first)), _facts(_compiled([final]))


def _compiled(statements: list[ast.stmt]) -> types.CodeType:
    tree = ast.Module(statements, [])
    return compile(tree, FILENAME, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_is_compiled_alike_on_both_ways(path: Path) -> None:
    text = path.read_text()

    parts = compile_in_parts(text)

    assert parts is None or tuple(map(_facts, parts)) == _long_way(text)


@pytest.mark.parametrize(
    "text",
    [
        "1 + 1",
        "x = 1\nx",
        "await f()",
        "x = 1\nprint(\n    x,\n)\n# the end\n\n",
        "def f():\n    return 1\nf()",
        "x = [\n1,\n]\nsum(x)",
        's = """\nprint(1)\n"""\nlen(s)',
        "if x:\n    pass\nelse:\n    pass\n(x\n)",
        "lambda: 1",
        "passes == 1",
        "x == 1",
        "pass",
        "x = 1",
        "x: int = 1",
        "x = 1\nx += 2",
        "d = {}\nd['a'] = 1",
        "a.b = 1",
        "for x in y:\n    f(x)",
        "async with x:\n    pass",
        'f("""\n""")\npass',
    ],
)
def test_the_short_way_takes_what_ends_at_the_margin(text: str) -> None:
    parts = compile_in_parts(text)

    assert parts is not None
    assert tuple(map(_facts, parts)) == _long_way(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# nothing",
        "return 1",
        "x = 1; x",
        'x = 3\n"total: %d" % x',
        "for x in y:\n    pass\n'done'",
        'def f():\n    pass\n"x".upper()',
        "x = 1\r'y'",
        "x = 1\n\f2",
        'x = """\n"""',
        "if x:\n    pass\nelse:\n    pass",
        'f("""\npass\n""")',
        "f(\na=1,\nb=2)",
        "f(\nx\nfor x in y)",
        "if x:\n    return 1\nx",
        "a; b",
        "tools.x()",
        "from __future__ import annotations\ndef f(x: y): pass\nf(1)",
        "x = not \\\ny",
        'f("""\nlen(s)\n""")',
        "f(\ng(1)\n)",
        "[x\nfor x in y]",
    ],
)
def test_the_short_way_leaves_the_rest_to_the_long_one(text: str) -> None:
    assert compile_in_parts(text) is None
