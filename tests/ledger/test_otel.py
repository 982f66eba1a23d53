import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolfold
from tests.ledger.made_up import begun, outcome
from toolfold import Problem
from toolfold.models import Call, CallRecord
from toolfold.telemetry import OtelObserver

sdk_metrics = pytest.importorskip("opentelemetry.sdk.metrics")
from opentelemetry.metrics import NoOpMeterProvider  # noqa: E402
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.trace import ProxyTracerProvider, StatusCode  # noqa: E402


class Rig:
    """An SDK that keeps everything in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = sdk_metrics.MeterProvider(metric_readers=[self.reader])
        self.observer = OtelObserver(tracers=self.tracers, meters=self.meters)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def metrics(self) -> dict[str, list[tuple[dict[str, object], float]]]:
        """Per metric: its labels and its sum."""
        data = self.reader.get_metrics_data()
        return {
            metric.name: [
                (dict(point.attributes), point.value if hasattr(point, "value") else point.sum)
                for point in metric.data.data_points
            ]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.meters.shutdown()
    rig.tracers.shutdown()


def test_a_program_that_runs_when_the_application_sets_its_meters_up_is_counted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = OtelObserver(tracers=rig.tracers, meters=rig.meters)
    monkeypatch.setattr(observer._tracers, "_provider", ProxyTracerProvider())
    monkeypatch.setattr(observer._meters, "_provider", NoOpMeterProvider())
    observer.began(begun("e1"))
    monkeypatch.setattr(observer._meters, "_provider", rig.meters)
    observer.ended("e1", outcome("e1"))

    assert rig.metrics()["toolfold.programs"] == [({"toolfold.status": "finished", "toolfold.engine": ""}, 1)]


def run_ten_calls(observer: OtelObserver, *, failing: int = 0) -> None:
    observer.began(begun("e1", engine="process", isolation="namespace"))
    for call_id in range(1, 11):
        observer.called("e1", Call(id=call_id, tool="price", arguments={"secret": "hunter2"}))
    for call_id in reversed(range(1, 11)):
        error = "no such share 'hunter2'" if call_id == failing else None
        observer.replied(
            "e1", CallRecord(id=call_id, name="price", arguments={"secret": "hunter2"}, seconds=0.5, error=error)
        )
    observer.ended("e1", outcome("e1", stdout="12.5\n", engine="process", seconds=2.0))


def test_a_program_with_ten_gathered_calls_is_one_span_with_ten_children(rig: Rig) -> None:
    run_ten_calls(rig.observer, failing=3)

    (program,) = rig.spans("toolfold.program")
    calls = rig.spans("toolfold.call price")
    assert len(rig.exporter.get_finished_spans()) == 11
    assert [call.parent.span_id for call in calls if call.parent] == [program.context.span_id] * 10
    assert [call.attributes["toolfold.call_id"] for call in calls if call.attributes] == list(range(10, 0, -1))
    assert [call.attributes["toolfold.call_id"] for call in calls if call.status.status_code is StatusCode.ERROR] == [3]
    assert program.status.status_code is StatusCode.UNSET
    assert dict(program.attributes or {}) == {
        "toolfold.execution_id": "e1",
        "toolfold.engine": "process",
        "toolfold.isolation": "namespace",
        "toolfold.session": "",
        "toolfold.tenant": "",
        "toolfold.program_bytes": 26,
        "toolfold.tools": 1,
        "toolfold.status": "finished",
        "toolfold.calls": 0,
        "toolfold.output_bytes": 5,
        "toolfold.context_saved_tokens": 0,
    }


def test_nothing_secret_is_in_a_span_unless_asked_for(rig: Rig) -> None:
    run_ten_calls(rig.observer, failing=3)
    quiet = "".join(span.to_json() for span in rig.exporter.get_finished_spans())
    rig.exporter.clear()

    run_ten_calls(OtelObserver(tracers=rig.tracers, meters=rig.meters, with_arguments=True), failing=3)
    asked = "".join(span.to_json() for span in rig.exporter.get_finished_spans())

    assert (quiet.count("hunter2"), asked.count("hunter2")) == (0, 1)


def test_a_program_that_fails_is_marked_and_its_open_calls_with_it(rig: Rig) -> None:
    rig.observer.began(begun("e1"))
    rig.observer.called("e1", Call(id=1, tool="slow", arguments={}))
    problem = Problem(kind="wall_clock", message="the program took longer than 1 s")
    rig.observer.ended("e1", outcome("e1", status="timeout", problem=problem))

    (program,) = rig.spans("toolfold.program")
    (call,) = rig.spans("toolfold.call slow")
    assert (program.status.status_code, call.status.status_code) == (StatusCode.ERROR, StatusCode.ERROR)
    assert program.attributes is not None
    assert (program.attributes["toolfold.status"], program.attributes["toolfold.problem"]) == ("timeout", "wall_clock")


def test_a_program_is_a_child_of_the_span_that_it_was_started_in(rig: Rig) -> None:
    with rig.tracers.get_tracer("app").start_as_current_span("request") as request:
        run_ten_calls(rig.observer)

    (program,) = rig.spans("toolfold.program")
    assert program.parent is not None
    assert program.parent.span_id == request.get_span_context().span_id


def test_calls_times_and_sizes_are_counted(rig: Rig) -> None:
    run_ten_calls(rig.observer, failing=3)

    good, bad = ({"toolfold.tool": "price", "toolfold.failed": failed} for failed in (False, True))
    whole = {"toolfold.status": "finished", "toolfold.engine": "process"}
    assert {name: sorted(points, key=str) for name, points in rig.metrics().items()} == {
        "toolfold.calls": [(good, 9), (bad, 1)],
        "toolfold.call.duration": [(good, 4.5), (bad, 0.5)],
        "toolfold.call.reply": [(good, 0), (bad, 0)],
        "toolfold.programs": [(whole, 1)],
        "toolfold.program.duration": [(whole, 2.0)],
        "toolfold.program.output": [(whole, 5)],
    }


def test_an_execution_that_began_elsewhere_is_counted_and_breaks_nothing(rig: Rig) -> None:
    rig.observer.called("other", Call(id=1, tool="price", arguments={}))
    rig.observer.replied("other", CallRecord(id=1, name="price", arguments={}))
    rig.observer.ended("other", outcome("other"))

    assert rig.exporter.get_finished_spans() == ()
    assert rig.metrics()["toolfold.calls"] == [({"toolfold.tool": "price", "toolfold.failed": False}, 1)]


def test_without_the_api_the_log_is_left_and_asking_for_it_is_one_clear_line() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from toolfold.telemetry import OtelObserver, usual_listeners\n"
        "print(len(usual_listeners()))\n"
        "try:\n    OtelObserver()\nexcept Exception as error:\n    print(error)\n"
    )
    source = str(Path(toolfold.__file__).parents[1])

    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )

    assert done.stdout == "1\nOpenTelemetry needs the package 'opentelemetry-api'; install it\n"


async def test_a_program_in_a_real_runtime_gives_one_span_with_ten_children(rig: Rig) -> None:
    async def look_up(key: int) -> int:
        """Fails for one of them."""
        if key == 3:
            raise ValueError("a secret text")
        return key

    async with toolfold.Runtime(tools=[look_up], listeners=[rig.observer]) as runtime:
        await runtime.run("await asyncio.gather(*[look_up(n) for n in range(10)], return_exceptions=True)")

    (program,) = rig.spans("toolfold.program")
    calls = rig.spans("toolfold.call look_up")
    assert program.context is not None
    assert [call.parent.span_id for call in calls if call.parent] == [program.context.span_id] * 10
    assert sorted(call.status.status_code.name for call in calls) == ["ERROR"] + ["UNSET"] * 9
    assert "secret" not in str([span.to_json() for span in rig.exporter.get_finished_spans()])
