"""Figures as a table, as lines about the targets, and as JSON."""

import json
import os
import platform
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.cases import Case
from bench.measure import Cell, Results
from bench.runners import FLOOR, OURS
from bench.targets import TARGETS

PACKAGES = ("toolfold", "pydantic-monty", "pandas", "numpy")


def show(results: Results, cases: Iterable[Case], console: Console) -> bool:
    """Print everything; whether all targets that were measured are reached."""
    cases = tuple(cases)
    console.print(_table(results, cases))
    console.print(f"median of the quietest pass ± interquartile range; × is the ratio to {FLOOR} and to {OURS}")
    titles = {case.name: case.title for case in cases}
    is_good = True
    for target in TARGETS:
        if target.case in titles:
            figure, is_reached = target.judge(results)
            is_good = is_good and is_reached
            than = f" {target.than}" if target.than else ""
            shown = "no figure" if figure is None else f"{figure:.3g} {target.unit}{than}"
            word = Text("PASS", "green") if is_reached else Text("MISS", "bold red")
            wanted = f"({target.sense} {target.limit:g} {target.unit}{than})"
            console.print(word, f"{titles[target.case]}: {shown} {wanted}", highlight=False)
    return is_good


def _table(results: Results, cases: tuple[Case, ...]) -> Table:
    runners = list(next(iter(results.values())))
    table = Table("", *runners, show_lines=True)
    for case in cases:
        cells = results[case.name]
        floor, ours = cells[FLOOR].figure, cells[OURS].figure
        table.add_row(case.title, *(_cell(cells[name], case.unit, floor, ours) for name in runners))
    return table


def _cell(cell: Cell, unit: str, floor: float | None, ours: float | None) -> Text:
    figure, spread = cell.figure, cell.spread
    if figure is None:
        return Text(cell.error or "not measured", "dim")
    text = Text(f"{_number(figure)} {unit}", "bold")
    if spread is not None:
        text.append(f" ±{_number(spread)}", "dim")
    ratios = [f"{_number(figure / base)}×" if base else "–" for base in (floor, ours)]
    return text.append(f"\n{ratios[0]} · {ratios[1]}", "not bold")


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write(results: Results, cases: Iterable[Case], path: Path) -> None:
    """Every sample, and the machine it was taken on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": _machine(),
        "cases": {
            case.name: {
                "title": case.title,
                "unit": case.unit,
                "runners": {name: _plain(cell) for name, cell in results[case.name].items()},
            }
            for case in cases
        },
        "targets": [_judged(target, results) for target in TARGETS if target.case in results],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _plain(cell: Cell) -> dict[str, Any]:
    if cell.error:
        return {"error": cell.error}
    return {"figure": cell.figure, "spread": cell.spread, "passes": cell.passes}


def _judged(target: Any, results: Results) -> dict[str, Any]:
    figure, is_reached = target.judge(results)
    wanted = {"case": target.case, "sense": target.sense, "limit": target.limit, "unit": target.unit}
    return {**wanted, "than": target.than, "figure": figure, "is_reached": is_reached}


def _machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
