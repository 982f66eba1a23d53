"""The checker's own test: a planted fault of each kind is found, and none where there is none."""

from typing import Any

from tests.faults.judge import Operation, Session, effect, violations


def operation(**said: Any) -> Operation:
    usual: dict[str, Any] = {"effects": 2, "replies": ["reply-a"], "end": "completed", "stdout": "a reply-a"}
    return Operation("a", **{**usual, **said})


def session(**found: str) -> Session:
    return Session("s", uploaded={"up": "1"}, left={"left": "2"}, found=found)


DONE = [effect("a", 1), effect("a", 2)]


def test_what_holds_together_is_no_violation() -> None:
    body = {"status": "completed"}
    operations = [operation(answers={"start": [body, dict(body)]})]

    assert violations(operations, DONE, [session(up="1", left="2", other="3")]) == []


def test_a_doubled_call_is_found() -> None:
    assert violations([operation()], [*DONE, "a-2"]) == ["doubled call: a-2 was done 2 times"]


def test_a_call_that_was_answered_and_never_done_is_found() -> None:
    assert violations([operation()], DONE[:1]) == ["lost call: a-2 was answered, and never done"]


def test_a_lost_reply_is_found() -> None:
    found = violations([operation(stdout="a")], DONE)

    assert found == ["lost reply: a was given 'reply-a' and printed 'a'"]


def test_a_second_answer_is_found() -> None:
    found = violations([operation(answers={"start": [{"token": "one"}, {"token": "two"}]})], DONE)

    assert found == ["second answer: a got {'token': 'one'} to start, then {'token': 'two'}"]


def test_a_lost_execution_is_found() -> None:
    found = violations([operation(end="lost", said="400 Execution expired to round 1")], DONE)

    assert found == ["lost execution: a had an acknowledged start, then '400 Execution expired to round 1'"]


def test_a_request_that_is_never_answered_is_found() -> None:
    assert violations([operation(end="open", said="round 1")], DONE) == ["never answered: a, round 1"]


def test_a_call_that_may_have_run_is_no_violation_unless_it_ran_twice() -> None:
    for done in ([], DONE[:1], DONE):
        assert violations([operation(end="unknown")], done) == []
    assert violations([operation(end="unknown")], ["a-1", "a-1"]) == ["doubled call: a-1 was done 2 times"]


def test_a_lost_upload_and_a_wiped_file_are_found() -> None:
    assert violations([], [], [session(left="2")]) == ["lost upload: s/up is not there"]
    assert violations([], [], [session(up="1")]) == ["wiped file: s/left is not there"]
    assert violations([], [], [session(up="1", left="1")]) == ["wiped file: s/left is '1', not '2'"]
    assert violations([], [], [Session("s")]) == ["never answered: what is in session s"]


def test_a_failure_of_the_host_that_is_not_told_as_such_is_found() -> None:
    assert violations([], [], [], ["POST /upload"]) == ["not 503: POST /upload was answered with 500"]
