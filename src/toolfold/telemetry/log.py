"""Standard log as a listener, and the four methods that it shares with OpenTelemetry.

Arguments and replies may hold secrets: they are told only where that was asked for with
`TOOLFOLD_LOG_ARGUMENTS=1`, and until then the text of an error is without what the call was given.
"""

from __future__ import annotations

import logging
import os
from typing import Final, Protocol

from toolfold.events import ProgramBegan, ProgramEnded, RuntimeEvent, ToolCalled, ToolReplied
from toolfold.ledger.base import StartRecord, first_line
from toolfold.models import Call, CallRecord, Outcome
from toolfold.tools.error_text import cut, error_for_log

_programs: Final = logging.getLogger("toolfold.programs")
_calls: Final = logging.getLogger("toolfold.calls")


class Observer(Protocol):
    """Told of every execution as it goes. No method waits, raises or changes anything.

    `began` comes first and `ended` last, in one process; each `called` is followed by one
    `replied` unless the execution ends or is cut off before.
    """

    def began(self, start_record: StartRecord) -> None: ...
    def called(self, execution_id: str, call: Call) -> None: ...
    def replied(self, execution_id: str, record: CallRecord) -> None: ...
    def ended(self, execution_id: str, outcome: Outcome) -> None: ...


def tell_observer(observer: Observer, event: RuntimeEvent) -> None:
    """Hand an event to the method that is for it."""
    match event:
        case ToolCalled():
            observer.called(event.execution_id, event.call)
        case ToolReplied():
            observer.replied(event.execution_id, event.record)
        case ProgramBegan():
            observer.began(event.begun)
        case ProgramEnded():
            observer.ended(event.execution_id, event.outcome)
        case _:
            pass  # what came later than these four has no method


class LogObserver:
    """One DEBUG line per call with its duration, in `toolfold.calls`; starts and ends in `toolfold.programs`.

    It is a listener itself, as `OtelObserver` is: both are asked for every program whether they listen.
    """

    def __init__(self) -> None:
        self._with_arguments = wants_arguments()

    @property
    def is_listening(self) -> bool:
        """Whether anybody reads the lines."""
        return _calls.isEnabledFor(logging.DEBUG) or _programs.isEnabledFor(logging.DEBUG)

    def __call__(self, event: RuntimeEvent) -> None:
        tell_observer(self, event)

    def began(self, start_record: StartRecord) -> None:
        if _programs.isEnabledFor(logging.DEBUG):
            text = f": {first_line(start_record.program.sent_text)}" if self._with_arguments else ""
            _programs.debug(
                "%s began on %s (%s)%s", start_record.execution_id, start_record.engine, start_record.isolation, text
            )

    def called(self, execution_id: str, call: Call) -> None:
        """Nothing: the line of the reply has it all, and two per call are one too many."""

    def replied(self, execution_id: str, record: CallRecord) -> None:
        if not _calls.isEnabledFor(logging.DEBUG):
            return
        # `repr` leaves no line break or control character in what a program or a tool wrote.
        arguments = cut(repr(dict(record.arguments))) if self._with_arguments else f"{record.bytes_in} bytes"
        ending = f"{record.bytes_out} bytes" if record.error is None else "failed"
        if record.error is not None:
            message = cut(repr(record.error)) if self._with_arguments else error_for_log(record.error, record.arguments)
            ending += f": {message}"
        _calls.debug(
            "%s call %d %s(%s) %.1f ms, %s",
            execution_id, record.id, record.name, arguments, record.seconds * 1000, ending,
        )  # fmt: skip

    def ended(self, execution_id: str, outcome: Outcome) -> None:
        if _programs.isEnabledFor(logging.DEBUG):
            _programs.debug(
                "%s %s after %.1f ms, %d calls",
                execution_id, outcome.status, outcome.seconds * 1000, len(outcome.calls),
            )  # fmt: skip


def wants_arguments() -> bool:
    """Whether the environment asks for arguments, replies and error texts."""
    return os.environ.get("TOOLFOLD_LOG_ARGUMENTS", "") not in ("", "0")
