"""The judge's own test: a contradiction of each kind is found, and none where there is none."""

import json
from dataclasses import replace
from typing import Any

from tests.faults.judge import Disturbance, Done, Operation, Recorded, Session, Violation, violations
from tests.faults.programs import script

STEPS = script("a", ("effect", "clock", "ask", "plain effect")).steps
LINES: list[Any] = [
    ["effect", "a-1", "did-1"],
    ["clock", "a-2", [5.0, 6.0, "7"]],
    ["ask", "a-3", "sun"],
    ["plain effect", "a-4", "did-4"],
]
DONE = [Done("a-1", "did-1", []), Done("a-4", "did-4", LINES[:3])]
UNKNOWN = {"unknown": "whether it ran is not known"}
CALLS = ((1, "a-1"), (2, "a-3"), (3, "a-4"))
REPLIES = ((1, "did-1"), (2, "sun"), (3, "did-4"))


def operation(*lines: Any, **fields: Any) -> Operation:
    usual: dict[str, Any] = {
        "end": "completed", "stdout": "".join(json.dumps(line) + "\n" for line in lines or LINES),
        "replies": {"a-3": "sun"}, "evidence": [("a-3", LINES[:2])], "in_flight": [(10.0, 20.0)], "execution_id": "x1",
    }  # fmt: skip
    return Operation("a", STEPS, **{**usual, **fields})


def record(**fields: Any) -> Recorded:
    stdout = operation().stdout
    return replace(Recorded("x1", "a", "ended", "finished", stdout, CALLS, REPLIES), **fields)


def fault(cause: Any, began: float = 12.0) -> Disturbance:
    return Disturbance(cause, began, began)


def kinds(*found: Any, **more: Any) -> list[str]:
    return [violation.kind for violation in violations(*found, **more)]


def test_what_holds_together_is_no_violation() -> None:
    body = {"status": "completed"}
    one = operation(answers={"start": [body, dict(body)]})
    session = Session("s", uploaded={"up": "1"}, left={"left": "2"}, found={"up": "1", "left": "2", "other": "3"})

    assert violations([one], DONE, [session], records=[record()]) == []


def test_a_violation_names_the_execution_and_both_values() -> None:
    [found] = violations([operation(["effect", "a-1", "did-2"], *LINES[1:], evidence=[])], [DONE[0]])[:1]

    assert found == Violation("wrong reply", "a", "did-1", "did-2", "the host's reply to a-1", "x1")
    assert str(found) == "wrong reply: a (execution x1) at the host's reply to a-1: expected did-1, got did-2"


def test_calls_that_were_done_twice_or_never_are_found() -> None:
    assert kinds([operation()], [*DONE, DONE[1]]) == ["doubled call"]
    assert kinds([operation()], DONE[:1]) == ["lost call"]


def test_a_reply_that_is_longer_shorter_or_of_another_call_is_found() -> None:
    for value in ("sun!", "su", "", None, "did-1", ["sun"]):
        assert kinds([operation(*LINES[:2], ["ask", "a-3", value], LINES[3])], [DONE[0], replace(DONE[1], seen=[*LINES[:2], ["ask", "a-3", value]])]) == ["wrong reply"]  # fmt: skip


def test_a_past_that_changed_is_found_at_the_client_and_at_the_tool() -> None:
    other = ["clock", "a-2", [5.5, 6.0, "7"]]

    assert kinds([operation(evidence=[("a-3", [LINES[0], other])])], DONE) == ["changed past"]
    assert kinds([operation()], [DONE[0], replace(DONE[1], seen=[LINES[0], other, LINES[2]])]) == ["changed past"]


def test_steps_that_are_missing_or_in_another_order_and_foreign_output_are_found() -> None:
    assert kinds([operation(*LINES[:3])], DONE) == ["wrong output"]
    assert "wrong output" in kinds([operation(LINES[1], LINES[0], *LINES[2:])], DONE)
    assert kinds([operation(stdout=operation().stdout + "hello\n")], DONE) == ["wrong output"]


def test_a_clock_that_runs_backwards_is_found() -> None:
    steps = script("a", ("clock", "clock")).steps
    lines = [["clock", "a-1", [5.0, 6.0, "7"]], ["clock", "a-2", [5.0, 5.9, "7"]]]
    one = Operation("a", steps, end="completed", stdout="\n".join(map(json.dumps, lines)))

    assert kinds([one], []) == ["clock ran backwards"]


def test_an_unknown_call_is_excused_only_by_a_host_that_was_disturbed_while_it_ran() -> None:
    lines = [["effect", "a-1", UNKNOWN], *LINES[1:]]
    one = operation(*lines, evidence=[("a-3", lines[:2])])
    done = replace(DONE[1], seen=lines[:3])

    for before in ([], [DONE[0]]):
        assert kinds([one], [*before, done], faults=[fault("host")]) == []
        assert kinds([one], [*before, done], faults=[fault("host", 9.0), fault("other")]) == ["unknown without a cause"]
    assert kinds([one], [DONE[0], DONE[0], done], faults=[fault("host")]) == ["doubled call"]
    # Nor may a call that was answered become unknown, or the rest be wrong.
    assert kinds([operation(*lines)], [done], faults=[fault("host")]) == ["changed past"]
    wrong = operation(*lines[:2], ["ask", "a-3", "rain"], lines[3], evidence=[])
    assert kinds([wrong], [replace(done, seen=[*lines[:2], ["ask", "a-3", "rain"]])], faults=[fault("host")]) == [
        "wrong reply"
    ]
    assert kinds([operation(["effect", "a-1", {"unknown": "no such tool"}], *LINES[1:], evidence=[])], DONE[:1], faults=[fault("host")])[0] == "wrong reply"  # fmt: skip


def test_a_program_that_ends_at_an_unknown_call_ends_there_and_nothing_behind_it_is_done() -> None:
    ended = operation(*LINES[:3], end="unknown")

    assert kinds([ended], DONE[:1], faults=[fault("host")]) == []
    assert kinds([ended], DONE, faults=[fault("host")]) == []
    assert kinds([ended], DONE, faults=[]) == ["unknown without a cause"]
    assert kinds([operation(*LINES[:1], end="unknown", evidence=[])], DONE[:1], faults=[fault("host")]) == ["wrong end"]


def test_a_killed_program_is_excused_only_by_a_guest_that_was_killed_while_it_ran() -> None:
    killed = operation(*LINES[:2], end="killed", said="killed")

    assert kinds([killed], DONE[:1], faults=[fault("guest")]) == []
    assert kinds([killed], DONE[:1], faults=[fault("guest", 9.0), fault("host")]) == ["killed without a cause"]
    assert kinds([killed], DONE, faults=[fault("guest")])[-1] == "effect behind the end"
    assert kinds([operation(*LINES[:1], end="killed")], DONE[:1], faults=[fault("guest")]) == ["changed past"]


def test_a_program_that_was_cancelled_does_nothing_more() -> None:
    cancelled = operation(stdout="", end="cancelled", reached=2)

    assert kinds([cancelled], DONE[:1]) == []
    assert kinds([cancelled], DONE) == ["effect behind the end"]


def test_a_start_that_was_refused_without_a_call_made_none() -> None:
    assert kinds([operation(stdout="", end="refused", evidence=[])], []) == []
    assert kinds([operation(stdout="", end="refused", evidence=[])], DONE[:1]) == ["effect of a refused start"]


def test_a_second_answer_a_lost_execution_and_a_missing_answer_are_found() -> None:
    assert kinds([operation(answers={"start": [{"token": "one"}, {"token": "two"}]})], DONE) == ["second answer"]
    assert kinds([operation(end="lost", said="400 Execution expired to round 1")], DONE) == ["lost execution"]
    assert kinds([operation(end="open", said="round 1")], DONE) == ["never answered"]


def test_what_the_ledger_tells_otherwise_is_found() -> None:
    wrong = {
        "not on record": [],
        "second execution": [record(execution_id="x0"), record()],
        "end not on record": [record(state="running")],
        "other output on record": [record(stdout="")],
        "call not on record": [record(calls=CALLS[:2], replies=REPLIES[:2])],
        "entry written twice": [record(calls=(*CALLS, CALLS[0]))],
        "other reply on record": [record(replies=((1, "did-1"), (2, "rain"), (3, "did-4")))],
    }

    assert {kind: kinds([operation()], DONE, records=records) for kind, records in wrong.items()} == {
        kind: [kind] for kind in wrong
    }


def test_a_lost_upload_and_a_wiped_file_are_found() -> None:
    def session(**found: str) -> Session:
        return Session("s", uploaded={"up": "1"}, left={"left": "2"}, found=found)

    assert violations([], [], [session(left="2")]) == [Violation("lost upload", "s/up", "1", None)]
    assert violations([], [], [session(up="1")]) == [Violation("wiped file", "s/left", "2", None)]
    assert violations([], [], [session(up="1", left="1")]) == [Violation("wiped file", "s/left", "2", "1")]
    assert kinds([], [], [Session("s")]) == ["never answered"]


def test_a_failure_of_the_host_that_is_not_told_as_such_is_found() -> None:
    assert kinds([], [], [], broken=["POST /upload"]) == ["not 503"]
