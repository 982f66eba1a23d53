"""Our Pydantic AI toolset beside the harness's `CodeMode`: `python -m bench.codemode`.

The same agent, the same Pydantic AI, the same tools and programs; a function plays the model. What one
program costs is a whole run of the agent with an empty one, less that of an agent whose only tool runs
it in place; what one call costs is the rest of a run with many. It ends with status 0 when it came to
the end, targets met or not.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import record
from bench.languages import report
from bench.languages.corpus import Program, programs
from bench.languages.measure import Found
from bench.languages.measure import measure as measure_languages
from bench.measure import Results
from bench.peers.client import versions, workers
from bench.peers.measure import SPEED_CASES, measure
from bench.peers.roster import AGENT_PEERS, PEERS

FLOOR, OURS, PEER = AGENT_PEERS
CASES = ("empty", "sequential", "gather")
CALL_LIMIT = 0.5
SHORT = {FLOOR: "agent", OURS: "toolfold", PEER: "harness"}
"""As the other benchmarks name them."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one code mode. A figure is missing where one of its cases has none."""

    program_ms: float | None
    call_us: float | None
    gathered_us: float | None


ROWS = {"program": ("one program", "ms"), "call": ("one of 100 calls in a row", "µs"),
        "gathered": ("one of 1,000 gathered calls", "µs")}  # fmt: skip


def costs(results: Results, name: str) -> Costs:
    """What a code mode adds, from the figures of whole runs."""
    empty, bare = results["empty"][name].figure, results["empty"][FLOOR].figure
    if empty is None or bare is None:
        return Costs(None, None, None)

    def each(case: str, calls: int) -> float | None:
        figure = results[case][name].figure
        return None if figure is None else figure - empty * 1000 / calls

    return Costs(empty - bare, each("sequential", 100), each("gather", 1000))


def judge(ours: float | None, peer: float | None) -> tuple[float | None, bool | None]:
    """The ratio, and whether it is low enough."""
    if ours is None or peer is None or peer <= 0:  # under 0 is noise
        return None, None
    return ours / peer, ours / peer <= CALL_LIMIT


async def main() -> int:
    options = _options()
    progress = Console(stderr=True, highlight=False)
    console = Console(width=max(Console().width, 140))
    cases = [case for case in SPEED_CASES if case.name in CASES]
    passes, rounds = (1, 3) if options.quick else (2, 7)
    async with workers(AGENT_PEERS, "bench.tools", progress.print) as opened:
        missing = {name: worker.error for name, worker in opened.items() if worker.error}
        if missing:
            for name, words in missing.items():
                console.print(f"NOT RUN: {PEERS[name].title}: {words}", highlight=False, markup=False)
            return 0
        results = await measure(opened, cases, passes=passes, rounds=rounds, say=progress.print)
    found = {name: costs(results, name) for name in (OURS, PEER)}
    _show(results, found, console)
    corpus = programs()
    spoken = await measure_languages((OURS, PEER), corpus, progress.print)
    report.show(spoken, corpus, console)
    _write(results, found, spoken, corpus, options.json)
    console.print(f"\nwritten to {options.json}", highlight=False)
    return 0


def _show(results: Results, found: Mapping[str, Costs], console: Console) -> None:
    table = Table("what code mode adds", PEERS[OURS].title, PEERS[PEER].title, "ratio", "target", "")
    for key, (title, unit) in ROWS.items():
        ours, peer = (_figure(found[name], key) for name in (OURS, PEER))
        ratio, is_met = judge(ours, peer)
        is_wanted = key != "program"
        verdict = {True: "MET", False: "MISSED", None: "NO FIGURE"}[is_met] if is_wanted else ""
        shown = "–" if ratio is None else f"{ratio:.2f} ×"
        wanted = f"≤ {CALL_LIMIT:g} ×" if is_wanted else ""
        table.add_row(title, _number(ours, unit), _number(peer, unit), shown, wanted, verdict)
    console.print(table)
    packages = ", ".join(f"{name} {version}" for name, version in versions(PEER).items())
    empty = {name: results["empty"][name] for name in AGENT_PEERS}
    whole = "; ".join(f"{PEERS[name].title} {_number(cell.figure, 'ms')}" for name, cell in empty.items())
    console.print(f"under {packages}; a whole run of the agent with an empty program: {whole}", highlight=False)
    for case, cells in results.items():
        for name, cell in cells.items():
            if cell.error:
                console.print(f"  {case}, {PEERS[name].title}: {cell.error}", highlight=False, markup=False)


def _write(results: Results, found: Mapping[str, Costs], spoken: Found, corpus: Sequence[Program], path: Path) -> None:
    figures = {key: {name: _figure(found[name], key) for name in (OURS, PEER)} for key in ROWS}
    cases = {key: record.case(title, unit, _short(figures[key])) for key, (title, unit) in ROWS.items()}
    whole = {name: results["empty"][name].figure for name in AGENT_PEERS}
    cases["run"] = record.case("a whole run of the agent with an empty program", "ms", _short(whole))
    for topic, case in report.shares(spoken.peers, corpus).items():
        cases[f"language-{topic}"] = {**case, "runners": _short(case["runners"])}
    targets = []
    for key in ("call", "gathered"):
        ratio, is_met = judge(figures[key][OURS], figures[key][PEER])
        targets.append(record.target(key, ratio, CALL_LIMIT, "×", is_reached=is_met, than=SHORT[PEER]))
    share = cases[f"language-{report.ALL}"]["runners"][SHORT[OURS]]["figure"]
    all_run = record.target(f"language-{report.ALL}", share, 100, "%", is_reached=share == 100, sense="at least")
    record.write(
        path,
        title="Code mode under one agent",
        command="make bench NAME=codemode",
        cases=cases,
        targets=[*targets, all_run],
        notes=report.notes(spoken),
        runners=_short({name: {"title": PEERS[name].title, "versions": versions(name)} for name in AGENT_PEERS}),
        failures=_short({name: report.grouped(reasons) for name, reasons in spoken.peers.items()}),
    )


def _short(by_name: Mapping[str, Any]) -> dict[str, Any]:
    return {SHORT[name]: value for name, value in by_name.items()}


def _figure(cost: Costs, key: str) -> float | None:
    return {"program": cost.program_ms, "call": cost.call_us, "gathered": cost.gathered_us}[key]


def _number(value: float | None, unit: str) -> Any:
    return "–" if value is None else f"{value:.0f} {unit}" if abs(value) >= 100 else f"{value:.2f} {unit}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.codemode", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one pass of three rounds")
    default = record.FOLDER / "codemode.json"
    parser.add_argument("--json", type=Path, default=default, metavar="PATH", help="default: build/bench/codemode.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
