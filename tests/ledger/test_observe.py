import logging

import pytest

from tests.ledger.made_up import begun, outcome
from toolfold.models import Call, CallRecord
from toolfold.telemetry import LogObserver


def record(call_id: int, error: str | None = None) -> CallRecord:
    arguments = {"password": "hunter2"}
    return CallRecord(
        id=call_id, name="login", arguments=arguments, seconds=0.0125, error=error, bytes_in=22, bytes_out=7
    )


def play(observer: LogObserver) -> None:
    observer.began(begun("e1", engine="process", isolation="namespace"))
    observer.called("e1", Call(id=1, tool="login", arguments={"password": "hunter2"}))
    observer.replied("e1", record(1))
    observer.replied("e1", record(2, error="wrong password\n'hunter2'"))
    observer.ended("e1", outcome("e1", status="failed", seconds=0.5, calls=(record(1), record(2))))


def test_each_call_has_a_line_with_its_duration_and_nothing_secret(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "toolfold"):
        play(LogObserver())

    assert [(line.name, line.getMessage()) for line in caplog.records] == [
        ("toolfold.programs", "e1 began on process (namespace)"),
        ("toolfold.calls", "e1 call 1 login(22 bytes) 12.5 ms, 7 bytes"),
        ("toolfold.calls", "e1 call 2 login(22 bytes) 12.5 ms, failed: \"wrong password\\n'***'\""),
        ("toolfold.programs", "e1 failed after 500.0 ms, 2 calls"),
    ]


def test_arguments_and_error_texts_are_shown_when_the_environment_asks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLFOLD_LOG_ARGUMENTS", "1")
    with caplog.at_level(logging.DEBUG, "toolfold"):
        play(LogObserver())

    assert caplog.messages == [
        "e1 began on process (namespace): print(await price('ACME'))",
        "e1 call 1 login({'password': 'hunter2'}) 12.5 ms, 7 bytes",
        "e1 call 2 login({'password': 'hunter2'}) 12.5 ms, failed: \"wrong password\\n'hunter2'\"",
        "e1 failed after 500.0 ms, 2 calls",
    ]


def test_without_debug_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolfold"):
        play(LogObserver())

    assert caplog.messages == []
