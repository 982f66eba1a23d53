"""The page says what the code does."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from toolfold.config.sections import HttpConfig, JwtConfig
from toolfold.engines.base import NodeLoad
from toolfold.interfaces.http.metrics import _HELP, Metrics

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("section", [HttpConfig, JwtConfig])
def test_the_config_page_has_every_key(section: type[BaseModel]) -> None:
    told = {name: " ".join((field.description or "").split()) for name, field in section.model_fields.items()}
    rows = [f"| `{name}` | {words} |" for name, words in told.items()]

    assert "\n".join(["| key | meaning |", "|---|---|", *rows]) in (DOCS / "config.md").read_text("utf-8")


def test_the_page_has_every_metric() -> None:
    text = (DOCS / "http.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `(toolfold_http_\w+)[^|]*\| (.*) \|$", text, re.MULTILINE))

    assert told == {name: help_text for name, (_, help_text) in _HELP.items()}


def test_metrics_are_in_the_form_of_prometheus() -> None:
    metrics = Metrics()
    metrics.add("executions", status="finished")
    metrics.add("executions", status="failed")
    metrics.add("executions", status="failed")
    for rounds in (0, 1, 3, 500):
        metrics.observe("execution_rounds", rounds)
    lines = metrics.render(paused=3, guests=4, guest_memory_bytes=5).splitlines()
    at = lines.index("# TYPE toolfold_http_execution_rounds histogram")

    assert lines[:4] == [
        "# HELP toolfold_http_executions_total Executions that ended, by status.",
        "# TYPE toolfold_http_executions_total counter",
        'toolfold_http_executions_total{status="failed"} 2',
        'toolfold_http_executions_total{status="finished"} 1',
    ]
    assert lines[at + 1 : at + 12] == [
        *(
            f'toolfold_http_execution_rounds_bucket{{le="{bound}"}} {count}'
            for bound, count in zip((0, 1, 2, 5, 10, 20, 50, 100, "+Inf"), (1, 2, 2, 3, 3, 3, 3, 3, 4), strict=True)
        ),
        "toolfold_http_execution_rounds_sum 504",
        "toolfold_http_execution_rounds_count 4",
    ]
    gauges = [line for line in lines if line.startswith(("toolfold_http_paused", "toolfold_http_guest"))]
    assert gauges == ["toolfold_http_paused 3", "toolfold_http_guests 4", "toolfold_http_guest_memory_bytes 5"]


def test_each_node_of_a_cluster_has_its_metrics() -> None:
    node = NodeLoad(address="10.0.0.5:1", guests=3, guest_memory_bytes=4, programs=2, started=7, moved=1)
    values = Metrics().render([node], paused=0, guests=3, guest_memory_bytes=4).splitlines()[-15:]

    assert [line for line in values if not line.startswith("#")] == [
        'toolfold_http_node_guests{node="10.0.0.5:1"} 3',
        'toolfold_http_node_guest_memory_bytes{node="10.0.0.5:1"} 4',
        'toolfold_http_node_programs{node="10.0.0.5:1"} 2',
        'toolfold_http_node_started_total{node="10.0.0.5:1"} 7',
        'toolfold_http_node_moved_total{node="10.0.0.5:1"} 1',
    ]
