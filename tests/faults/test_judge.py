"""The checker's own test: a planted fault of each kind is found, and none where there is none."""

from typing import Any

from tests.faults.judge import Operation, effect, violations


def operation(**said: Any) -> Operation:
    usual: dict[str, Any] = {"effects": 2, "replies": ["reply-a"], "end": "completed", "stdout": "a reply-a"}
    return Operation("a", **{**usual, **said})


DONE = [effect("a", 1), effect("a", 2)]


def test_what_holds_together_is_no_violation() -> None:
    body = {"status": "completed"}

    assert violations([operation(answers={"start": [body, dict(body)]})], DONE) == []


def test_a_doubled_call_is_found() -> None:
    assert violations([operation()], [*DONE, "a-2"]) == ["doubled call: a-2 was done 2 times"]


def test_a_call_that_was_answered_and_never_done_is_found() -> None:
    assert violations([operation()], DONE[:1]) == ["lost call: a-2 was answered, and never done"]


def test_a_lost_reply_is_found() -> None:
    found = violations([operation(stdout="a")], DONE)

    assert found == ["lost reply: a was given 'reply-a' and printed 'a'"]


def test_a_second_answer_is_found() -> None:
    answers = {"start": [{"continuation_token": "one"}, {"continuation_token": "two"}]}

    assert violations([operation(answers=answers)], DONE) == ["second answer: a got different answers to start"]


def test_a_lost_execution_is_found() -> None:
    found = violations([operation(end="lost", said="400 Execution expired to round 1")], DONE)

    assert found == ["lost execution: a had an acknowledged start, then '400 Execution expired to round 1'"]


def test_a_call_that_may_have_run_is_no_violation_unless_it_ran_twice() -> None:
    for done in ([], DONE[:1], DONE):
        assert violations([operation(end="unknown")], done) == []
    assert violations([operation(end="unknown")], ["a-1", "a-1"]) == ["doubled call: a-1 was done 2 times"]
