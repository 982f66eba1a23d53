"""The check runs in the trusted host on text from anywhere: it never raises, hangs or leaks."""

import time
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolfold.models import Problem, Program, ToolSpec
from toolfold.program import Checker, check

MANY = 100_000
TOO_DEEP = Problem(
    kind="syntax", message="the program is nested too deeply; split the expression or statement into several"
)
VALID = Path(__file__).with_name("valid_programs.txt").read_text(encoding="utf-8").split("### ")[1:]
ALPHABET = "abprice(){}[]:,.=*'\"\\\n\t #@0123\0\ud800éawait returnimportdefclass"


@pytest.mark.parametrize(
    "text",
    [
        "-" * MANY + "1",
        "not " * MANY + "1",
        "a" + ".b" * MANY,
        "f" + "()" * MANY,
        "1" + "+1" * MANY,
        "lambda:" * MANY + "1",
        "if 1:pass\n" + "elif 1:pass\n" * 30_000,
    ],
)
def test_text_that_is_nested_too_deeply_is_a_problem(text: str) -> None:
    assert check(text) == TOO_DEEP


@pytest.mark.parametrize("bracket", "([{")
def test_100000_open_brackets_are_a_syntax_error(bracket: str) -> None:
    problem = check(bracket * MANY)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message, problem.line) == ("syntax", "too many nested parentheses", 1)


# Each of these makes `compile` crash, hang or fill the memory; parsing them is harmless.
@pytest.mark.parametrize(
    "text",
    [
        "a = []\n[a " + "for a in a " * 20_000 + "]",
        "dict(" + ",".join(f"a{i}=1" for i in range(20_000)) + ")",
        "x = 1\nmatch x:\n case [" + ",".join(f"a{i}" for i in range(5_000)) + "]:pass",
        "".join(f"{'  ' * i}try:\n{'  ' * i}  pass\n{'  ' * i}finally:\n" for i in range(19)) + "  " * 19 + "x=1",
        "try:\n" + " return\n" * 2_000 + "finally:\n" + " x=1\n" * 3_000,
    ],
    ids=["loops", "keywords", "captures", "nested finally", "returns in finally"],
)
def test_text_that_the_compiler_cannot_bear_is_let_through_in_time(text: str) -> None:
    started = time.process_time()

    checked = check(text)

    assert checked == Program(text=text)
    assert time.process_time() - started < 2


def test_many_unknown_names_and_many_tools_take_no_more_than_a_moment() -> None:
    tools = [ToolSpec(name=f"tool_{i}", python_name=f"tool_{i}") for i in range(10_000)]
    text = "".join(f"zq{i}()\n" for i in range(5_000))
    started = time.process_time()

    checked = check(text, tools)

    assert checked == Problem(
        kind="name", message="'zq0' is not defined; give it a value first", line=1, column=1, source="zq0()\n^"
    )
    assert time.process_time() - started < 2


@pytest.mark.parametrize("text", ["print('\\d')", "x = 1 is 1", "assert (1, 'x')", "x = 1()", "x = 0x1for x in [1]"])
@pytest.mark.parametrize("action", ["error", "always"])
def test_warnings_of_the_compiler_neither_show_nor_become_errors(action, text: str, capsys) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        first, again = check(text), check(text)

    assert first == again
    assert not isinstance(first, Problem) or "for" in text
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": None},
        {"properties": []},
        {"properties": {"a": None}, "required": None},
        {"properties": {"a": {"type": 3}}, "required": [3, None, "b"]},
        {"properties": {"a": {"enum": "x", "anyOf": {}, "allOf": 3}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$ref": 3}}},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}] * 50}}},
        {"properties": {"a": {"items": {"$ref": "#/properties/a"}, "type": ["array", "martian"]}}},
        {"properties": {"a": {"enum": []}}, "additionalProperties": {"type": "string"}},
        {"type": ["object", "null"]},
    ],
)
def test_a_strange_schema_is_no_error(schema) -> None:
    tools = [ToolSpec(name="t", python_name="t", input_schema=schema)]
    calls = ("t()", "t(1)", "t(a=1)", "t({'a': 1})", "t(a=[[[[1]]]])", "t(a={'a': {'a': 1}})", "t(b=1)", "t(1, 2, a=3)")

    for call in calls:
        assert isinstance(check(f"x = [{call}]", tools), Program | Problem)


@settings(max_examples=300, deadline=None)
@given(text=st.text() | st.text(alphabet=ALPHABET, max_size=200))
def test_any_text_gets_an_answer(text: str) -> None:
    assert isinstance(answered_in_time(Checker(), text), Program | Problem)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_get_an_answer(data: bytes) -> None:
    for text in (data.decode("latin-1"), data.decode("utf-8", "surrogateescape")):
        assert isinstance(answered_in_time(Checker(), text), Program | Problem)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_program_gets_an_answer(data: st.DataObject, checker: Checker) -> None:
    text = data.draw(st.sampled_from(VALID)).partition("\n")[2]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 10)))
        text = text[:start] + data.draw(st.text(alphabet=ALPHABET, max_size=6)) + text[end:]

    checked = answered_in_time(checker, text)

    assert isinstance(checked, Program | Problem)
    assert isinstance(checked, Program) or _is_well_formed(checked, text)


def answered_in_time(checker: Checker, text: str) -> Program | Problem:
    """Processor time, not the clock: other programs on the machine are not to blame here."""
    started = time.process_time()
    checked = checker.check(text)
    assert time.process_time() - started < 1
    return checked


def _is_well_formed(problem: Problem, text: str) -> bool:
    """One line of message; two lines of source whose caret is where the column says."""
    lines = problem.source.split("\n")
    has_caret = len(lines) == 2 and lines[1].strip() == "^"
    return "\n" not in problem.message and (has_caret or problem.column is None)
