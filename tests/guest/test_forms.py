"""The table of what becomes what: shown in the docs, and true."""

import json
from pathlib import Path
from typing import Any

import mpmath
import pytest
import sympy

from toolfold.errors import ToolError
from toolfold.tools.sendable_values import to_value
from toolfold_guest.program.value_encoder import encode, encode_value
from toolfold_guest.shared.value_rules import TABLE

PROGRAMS_PAGE = Path(__file__).parent.parent.parent / "docs" / "programs.md"
X = sympy.Symbol("x")
with mpmath.workdps(30):
    PRECISE = mpmath.mpf(1) / 3


def test_the_docs_show_the_table() -> None:
    rows = "".join(f"| {kinds} | {becomes} |\n" for kinds, becomes in TABLE)

    assert f"| type | becomes |\n|---|---|\n{rows}\n" in PROGRAMS_PAGE.read_text()


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (sympy.Integer(3), 3),
        (sympy.Float("0.5"), 0.5),
        (sympy.Float(1) / 3, 1 / 3),
        (sympy.Float(1, 30) / 3, "0.333333333333333333333333333333"),
        (sympy.Rational(1, 3), "1/3"),
        (sympy.sqrt(2), "sqrt(2)"),
        (X**2 + 1, "x**2 + 1"),
        (sympy.Matrix([[1, X], [0, 1]]), [[1, "x"], [0, 1]]),
        (sympy.solve(X**2 - 4, X), [-2, 2]),
        ({X: sympy.pi}, {"x": "pi"}),
        (sympy.true, True),
        (sympy.FiniteSet(1, 2), [1, 2]),
        (sympy.oo, "oo"),
        (mpmath.mpf("0.5"), 0.5),
        (mpmath.mpf(1) / 3, 1 / 3),
        (PRECISE, "0." + 31 * "3"),
        (mpmath.mpc(1, 2), "1.0+2.0j"),
        (mpmath.matrix([[1, 2]]), [[1.0, 2.0]]),
    ],
    ids=repr,
)
def test_numbers_and_expressions_have_one_form_in_every_direction(value: Any, form: Any) -> None:
    assert json.loads(encode([value], "value")) == [form]
    assert json.loads(encode_value(value)[0]) == form
    if not isinstance(value, dict):
        assert to_value(value) == form


def test_the_text_of_a_host_object_is_never_sent_to_a_program() -> None:
    with pytest.raises(ToolError) as caught:
        to_value({"f": len})

    assert str(caught.value) == "a value that cannot be sent: builtin_function_or_method at f"
