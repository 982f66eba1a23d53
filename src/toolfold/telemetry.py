"""Telemetry: the standard log and OpenTelemetry."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from toolfold.errors import UsageError
from toolfold.events import Listener, ProgramBegan, ProgramEnded, RuntimeEvent, ToolCalled, ToolReplied
from toolfold.ledger.base import StartRecord, first_line
from toolfold.models import Call, CallRecord, Outcome
from toolfold.tools.error_text import cut, error_for_log

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider


# ----------------------------------------------------------------------------------------------------
# Standard log as a listener, and the four methods that it shares with OpenTelemetry.
#
# Arguments and replies may hold secrets: they are told only where that was asked for with
# `TOOLFOLD_LOG_ARGUMENTS=1`, and until then the text of an error is without what the call was given.

_programs: Final = logging.getLogger("toolfold.programs")
_calls: Final = logging.getLogger("toolfold.calls")


class _Observer(ABC):
    """A listener with a method for each event that it reports.

    `began` comes first and `ended` last, in one process; each `called` is followed by one
    `replied` unless the execution ends or is cut off before.
    """

    def __call__(self, event: RuntimeEvent) -> None:
        match event:
            case ToolCalled():
                self.called(event.execution_id, event.call)
            case ToolReplied():
                self.replied(event.execution_id, event.record)
            case ProgramBegan():
                self.began(event.start_record)
            case ProgramEnded():
                self.ended(event.execution_id, event.outcome)

    def called(self, execution_id: str, call: Call) -> None:  # noqa: B027 - not everyone reports it
        pass

    @abstractmethod
    def began(self, start_record: StartRecord) -> None: ...
    @abstractmethod
    def replied(self, execution_id: str, record: CallRecord) -> None: ...
    @abstractmethod
    def ended(self, execution_id: str, outcome: Outcome) -> None: ...


class LogObserver(_Observer):
    """One DEBUG line per call with its duration, in `toolfold.calls`; starts and ends in `toolfold.programs`."""

    def __init__(self) -> None:
        self._with_arguments = wants_arguments()

    @property
    def is_listening(self) -> bool:
        return _calls.isEnabledFor(logging.DEBUG) or _programs.isEnabledFor(logging.DEBUG)

    def began(self, start_record: StartRecord) -> None:
        if _programs.isEnabledFor(logging.DEBUG):
            text = f": {first_line(start_record.program.sent_text)}" if self._with_arguments else ""
            _programs.debug(
                "%s began on %s (%s)%s", start_record.execution_id, start_record.engine, start_record.isolation, text
            )

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
    return os.environ.get("TOOLFOLD_LOG_ARGUMENTS", "") not in ("", "0")


# ----------------------------------------------------------------------------------------------------
# OpenTelemetry: a span per program, a child span per call, and counts, times and sizes as metrics.
#
# The only file that imports `opentelemetry`, and only its API: what becomes of the spans is for the
# application's SDK to say. Without one nothing is recorded, and a call costs a look into a dict.

_NAME: Final = "toolfold"


class OtelObserver(_Observer):
    """Turns what happens into spans and metrics, of the application's global providers unless others are given.

    With `with_arguments`, spans have error texts, which may quote arguments.
    """

    def __init__(
        self, *, tracers: TracerProvider | None = None, meters: MeterProvider | None = None,
        with_arguments: bool | None = None,
    ) -> None:  # fmt: skip
        try:
            # An optional extra; imported when someone asks for it.
            from opentelemetry import metrics, trace  # noqa: PLC0415
        except ImportError as error:
            raise UsageError("OpenTelemetry needs the package 'opentelemetry-api'; install it") from error
        self._trace = trace
        self._tracers = _Provider(trace.get_tracer_provider, "_TRACER_PROVIDER", tracers)
        self._meters = _Provider(metrics.get_meter_provider, "_METER_PROVIDER", meters)
        self._is_heard = False
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracers)
        meter = metrics.get_meter(_NAME, meter_provider=meters)
        self._programs = meter.create_counter("toolfold.programs", unit="{program}", description="Programs ended")
        self._program_seconds = meter.create_histogram(
            "toolfold.program.duration", unit="s", description="From start to end, pauses included"
        )
        self._output_bytes = meter.create_histogram(
            "toolfold.program.output", unit="By", description="Stdout and stderr of a program"
        )
        self._calls = meter.create_counter("toolfold.calls", unit="{call}", description="Tool calls answered")
        self._call_seconds = meter.create_histogram("toolfold.call.duration", unit="s", description="Of a tool call")
        self._reply_bytes = meter.create_histogram("toolfold.call.reply", unit="By", description="Of a reply, as JSON")
        self._with_arguments = wants_arguments() if with_arguments is None else with_arguments
        self._open: dict[str, _OpenProgram] = {}

    @property
    def is_listening(self) -> bool:
        """Whether the application has an SDK that takes spans or metrics."""
        return self._tracers.records or self._meters.records

    def began(self, start_record: StartRecord) -> None:
        self._is_heard = self.is_listening
        if not self._is_heard:
            return
        span = self._tracer.start_span("toolfold.program")
        if not span.is_recording():
            return
        span.set_attributes(
            {"toolfold.execution_id": start_record.execution_id, "toolfold.engine": start_record.engine,
             "toolfold.isolation": start_record.isolation, "toolfold.session": start_record.session,
             "toolfold.tenant": start_record.tenant,
             "toolfold.program_bytes": len(start_record.program.sent_text.encode(errors="replace")),
             "toolfold.tools": len(start_record.tools)}
        )  # fmt: skip
        if start_record.rerun_of:
            span.set_attribute("toolfold.rerun_of", start_record.rerun_of)
        self._open[start_record.execution_id] = _OpenProgram(span, self._trace.set_span_in_context(span))

    def called(self, execution_id: str, call: Call) -> None:
        program = self._open.get(execution_id)
        if program is None:
            return
        attributes: dict[str, str | int] = {"toolfold.tool": call.tool, "toolfold.call_id": call.id}
        if call.within:
            attributes["toolfold.within"] = call.within
        program.calls[call.id] = self._tracer.start_span(
            f"toolfold.call {call.tool}", context=program.context, attributes=attributes
        )

    def replied(self, execution_id: str, record: CallRecord) -> None:
        if not self._is_heard and not self._meters.records:
            return
        labels: dict[str, str | bool] = {"toolfold.tool": record.name, "toolfold.failed": record.error is not None}
        self._calls.add(1, labels)
        self._call_seconds.record(record.seconds, labels)
        self._reply_bytes.record(record.bytes_out, labels)
        program = self._open.get(execution_id)
        span = program.calls.pop(record.id, None) if program is not None else None
        if span is None:
            return
        span.set_attributes(
            {"toolfold.bytes_in": record.bytes_in, "toolfold.bytes_out": record.bytes_out,
             "toolfold.attempts": record.attempts, "toolfold.cached": record.cached,
             "toolfold.from_record": record.from_record}
        )  # fmt: skip
        if record.error is not None:
            self._mark(span, record.error)
        span.end()

    def ended(self, execution_id: str, outcome: Outcome) -> None:
        if not self._is_heard and not self._meters.records:
            return
        labels = {"toolfold.status": outcome.status, "toolfold.engine": outcome.engine}
        output_bytes = len(outcome.stdout.encode(errors="replace")) + len(outcome.stderr.encode(errors="replace"))
        self._programs.add(1, labels)
        self._program_seconds.record(outcome.seconds, labels)
        self._output_bytes.record(output_bytes, labels)
        program = self._open.pop(execution_id, None)
        if program is None:
            return
        for span in program.calls.values():
            self._mark(span, "the program ended before the reply")
            span.end()
        program.span.set_attributes(
            {"toolfold.status": outcome.status, "toolfold.calls": len(outcome.calls),
             "toolfold.output_bytes": output_bytes, "toolfold.context_saved_tokens": outcome.context_saved.tokens}
        )  # fmt: skip
        if outcome.status != "finished":
            self._mark(program.span, outcome.problem.message if outcome.problem else outcome.status)
            if outcome.problem is not None:
                program.span.set_attribute("toolfold.problem", outcome.problem.kind)
        program.span.end()

    def _mark(self, span: Span, text: str) -> None:
        description = text if self._with_arguments else None
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, description))


class _Provider:
    """Where spans or metrics go: asked again each time, because an application may set its SDK up while programs run.

    Until a provider is set the API reads the environment each time, which takes longer than all else that is done for
    a listener. Whether one is set is in a private name of the API; where there is none, it is asked as usual.
    """

    __slots__ = ("_get", "_name", "_names", "_provider")

    def __init__(self, get: Callable[[], object], name: str, provider: object | None) -> None:
        get()  # a provider that the environment names is set from here on
        self._get = get
        self._provider = provider
        self._name = name
        self._names: dict[str, object] = getattr(get, "__globals__", {})

    @property
    def records(self) -> bool:
        """Whether it is more than what the API has until one is set."""
        provider = self._provider
        if provider is None:
            if self._names.get(self._name, self) is None:
                return False
            provider = self._get()
        return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


@dataclass(slots=True)
class _OpenProgram:
    span: Span
    context: Context
    calls: dict[int, Span] = field(default_factory=dict)


def usual_listeners(*, with_telemetry: bool = True) -> list[Listener]:
    """The log, and OpenTelemetry where its API is installed."""
    listeners: list[Listener] = [LogObserver()]
    if with_telemetry:
        with suppress(UsageError):
            listeners.append(OtelObserver())
    return listeners
