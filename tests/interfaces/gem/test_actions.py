"""gem's dialect: a tool call in the text of an action."""

import json

import pytest

from toolfold.interfaces.gem.action_text import Action, parse_action


def call(name: str, arguments: str) -> str:
    return f"<tool_call>\n<tool_name>{name}</tool_name>\n<arguments>\n{arguments}\n</arguments>\n</tool_call>"


@pytest.mark.parametrize(
    "code",
    [
        "x = '</arguments>'",
        "x = '</arguments></tool_call>'",
        "print('<tool_call><tool_name>other</tool_name><arguments>{}</arguments></tool_call>')",
        "x = '}</arguments> </tool_call>'\ny = \"{\"",
    ],
)
def test_a_program_may_hold_the_marks_of_the_dialect_itself(code: str) -> None:
    text = call("run", json.dumps({"code": code}))

    assert parse_action(f"I think.\n{text}\nThen more.") == Action(text, "run", {"code": code})


def test_the_first_of_two_calls_counts() -> None:
    first, second = call("a", '{"x": "</arguments>"}'), call("b", "{}")

    assert parse_action(f"{first}\n{second}") == Action(first, "a", {"x": "</arguments>"})


@pytest.mark.parametrize("arguments", ["[1]", "{not json", '{"a": 1} and more', '"text"'])
def test_arguments_that_are_no_object_are_told_apart_from_no_call(arguments: str) -> None:
    text = call("a", arguments)

    assert parse_action(f"{text}\n{call('b', '{}')}") == Action(text, "a", None)


def test_no_arguments_are_an_empty_object() -> None:
    assert parse_action(call("a", "")) == Action(call("a", ""), "a", {})


@pytest.mark.parametrize("action", ["the answer is 3", "<tool_call><tool_name>a</tool_name>", call("", "{}")])
def test_a_text_without_a_whole_call_has_none(action: str) -> None:
    assert parse_action(action) is None
