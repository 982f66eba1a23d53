"""`make bench NAME=report`: what the benchmarks measured, in the docs."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from inline_snapshot import snapshot

from bench import record
from bench.report_figures import bars, ratios
from bench.report_page import COMMANDS, LARGE, SMALL, refreshed, write
from bench.report_savings import PARALLEL, PROGRAM
from bench.report_tables import clean, plain

ROOT = Path(__file__).parents[2]
MACHINE = {"processor": "Some CPU", "cores": 2, "kernel": "6.1", "python": "3.11.7", "packages": {}}
ENGINES: dict[str, Any] = {
    "date": "2026-11-15T10:00:00Z",
    "machine": MACHINE,
    "cases": {
        "empty": {
            "title": "an empty program",
            "unit": "ms",
            "runners": {
                "in-process exec": {"figure": 0.1, "spread": None, "passes": []},
                "toolfold": {"figure": 0.5, "spread": 0.042, "passes": [[0.5]]},
                "python -c": {"error": "No module named 'x' in /home/someone/lib/x.py"},
            },
        }
    },
    "targets": [record.target("empty", 5.0, 4, "×", is_reached=False, than="in-process exec")],
}


def page(*names: str) -> str:
    blocks = "\n".join(f"<!-- bench-report: {name} -->\nold\n<!-- /bench-report -->" for name in names)
    return f"# Title\n\nWritten by hand.\n{blocks}\nThe end.\n"


def test_a_block_holds_the_table_the_reasons_and_the_targets_and_the_rest_of_the_page_stays() -> None:
    text = refreshed(page("engines", "http"), {"engines": ENGINES}, {"engines-empty"})

    assert text == snapshot("""\
# Title

Written by hand.
<!-- bench-report: engines -->
![An empty program](figures/engines-empty.svg)

|  | in-process exec | toolfold | python -c |
| --- | --- | --- | --- |
| an empty program | 0.10 ms<br>0.20 × | **0.50 ms ± 0.042** | cannot (1) |

(1) python -c: No module named 'x' in x.py

Targets:

- an empty program: 5 × in-process exec (at most 4 ×): **missed**
<!-- /bench-report -->
<!-- bench-report: http -->
Not measured yet: run `make bench NAME=http`, then `make bench NAME=report`.
<!-- /bench-report -->
The end.
""")
    assert refreshed(text, {"engines": ENGINES}, {"engines-empty"}) == text


def test_one_runner_alone_is_a_list_of_figures_with_their_targets() -> None:
    document = {
        "cases": {"trip": record.case("one round", "ms", {"toolfold": 1.234})},
        "targets": [record.target("trip", 1.234, 2.5, "ms", is_reached=True)],
        "notes": ["with SQLite"],
    }

    assert plain(document) == snapshot("""\
|  | figure | target |
| --- | --- | --- |
| one round | 1.23 ms | at most 2.5 ms: reached |

Notes:

- with SQLite\
""")


def test_a_peer_is_told_with_its_version_its_walls_and_what_it_is_ahead_in() -> None:
    document = {
        "runners": {
            "toolfold": {"title": "toolfold", "isolation": "a jail", "versions": {}},
            "peer": {"title": "Peer Mode", "isolation": "none", "versions": {"peer": "1.2", "engine": "3"}},
        },
        "cases": {
            "empty": record.case("an empty program", "ms", {"toolfold": 0.5, "peer": 0.25}),
            "all": record.case("programs that run", "%", {"toolfold": 100, "peer": 25}),
        },
        "notes": ["Peer Mode is ahead in 'empty' by 2 ×; it has no wall"],
    }

    assert plain(document) == snapshot("""\
|  | toolfold | Peer Mode |
| --- | --- | --- |
| an empty program | **0.50 ms** | 0.25 ms<br>0.50 × |
| programs that run | **100 %** | 25 % |

What stands between a program and the host:

- toolfold: a jail
- Peer Mode 1.2: none

Notes:

- Peer Mode is ahead in 'empty' by 2 ×; it has no wall\
""")


def test_the_machine_and_the_date_of_each_benchmark_are_told_and_those_that_are_missing() -> None:
    text = refreshed(page("machine"), {"engines": ENGINES}, set())

    lines = text.splitlines()
    assert lines[6] == (
        "| engines | `make bench` | 2026-11-15 | 2 cores of Some CPU, Linux 6.1 | Python 3.11.7 |"
    )  # fmt: skip
    assert [line.split(" | ")[2] for line in lines[7 : 6 + len(COMMANDS)]] == ["not measured yet"] * (len(COMMANDS) - 1)


def test_a_block_that_nothing_is_written_for_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no benchmark 'enginse' for a block; use one of machine, figures, engines, "):
        refreshed(page("enginse"), {}, set())


def test_a_block_without_an_end_is_refused_before_it_swallows_the_page() -> None:
    text = page("engines", "http").replace("<!-- /bench-report -->", "", 1)

    with pytest.raises(ValueError, match=r"^a block has no end: every '<!-- bench-report: NAME -->' needs a "):
        refreshed(text, {}, set())


def test_the_readme_gets_four_figures_at_most_each_with_its_command(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(page("figures"))
    (tmp_path / "docs/benchmarks.md").write_text(page("codemode"))
    codemode = {
        **ENGINES,
        "cases": {"call": record.case("a call", "µs", {"toolfold": 80, "harness": 1000})},
        "targets": [],
    }

    write(tmp_path, {"engines": ENGINES, "codemode": codemode})

    assert (tmp_path / "README.md").read_text() == snapshot("""\
# Title

Written by hand.
<!-- bench-report: figures -->
- **0.50 ms** to run an empty program in the full jail, from text to outcome: `make bench`
- **0.08 ×** the time of one tool call in pydantic-ai-harness CodeMode, under the same agent: `make bench NAME=codemode`

All figures, including those where peers are ahead: [docs/benchmarks.md](docs/benchmarks.md).
<!-- /bench-report -->
The end.
""")
    assert [path.name for path in (tmp_path / "docs/figures").iterdir()] == ["engines-empty.svg"]


def test_the_readme_tells_what_is_lost_beside_what_is_saved() -> None:
    ways = {PROGRAM: 7379, PARALLEL: 307736}, {PROGRAM: 586, PARALLEL: 106}
    savings = {
        "cases": {
            f"{name}: input tokens": record.case(name, "", figures)
            for name, figures in zip((LARGE, SMALL), ways, strict=True)
        }
    }

    block = refreshed(page("figures"), {"savings": savings}, set())

    assert block.split("\n<!-- ")[1] == snapshot("""\
bench-report: figures -->
- **Saved: 0.024 ×** the input tokens of parallel direct calls where 50 replies have 20 KB each (7,379 instead of
  307,736): `make bench NAME=savings`
- **Lost: 5.53 ×** the input tokens of a direct call for one small reply (586 instead of 106): `make bench NAME=savings`

All figures, including those where peers are ahead: [docs/benchmarks.md](docs/benchmarks.md).\
""")


def test_a_chart_is_xml_with_a_bar_for_each_row() -> None:
    drawn = [
        bars('Time <of> "it"', [("toolfold", 0.5, "0.5 ms"), ("a & b", 12.0, "12 ms")], ours="toolfold"),
        ratios("Price", [("large", 0.03), ("small", 2.9)]),
    ]

    for text in drawn:
        root = ElementTree.fromstring(text)
        rectangles = root.findall("{http://www.w3.org/2000/svg}rect")
        assert len(rectangles) == 3  # the ground and two bars
        assert all(float(one.attrib["width"]) > 0 for one in rectangles)


def test_paths_of_a_machine_do_not_get_into_the_docs() -> None:
    assert clean("f.<locals>:\n no '/opt/some/where/lib.so'") == "f.&lt;locals>: no 'lib.so'"


def test_the_pages_of_this_repository_have_a_block_for_every_benchmark() -> None:
    text = (ROOT / "docs/benchmarks.md").read_text("utf-8")

    blocks = re.findall(r"<!-- bench-report: ([a-z-]+) -->", text)
    assert sorted(blocks) == sorted(["machine", *COMMANDS])


def test_a_benchmark_writes_what_the_report_reads(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "http.json"

    record.write(path, title="T", command="make x", cases={"a": record.case("A", "ms", {"toolfold": 1.5})}, notes=["n"])

    written = json.loads(path.read_text("utf-8"))
    machine = written.pop("machine")
    assert sorted(machine) == ["cores", "kernel", "packages", "processor", "python"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", written.pop("date"))
    assert written == {
        "title": "T",
        "command": "make x",
        "notes": ["n"],
        "cases": {
            "a": {"title": "A", "unit": "ms", "runners": {"toolfold": {"figure": 1.5, "spread": None, "passes": []}}}
        },
        "targets": [],
    }
