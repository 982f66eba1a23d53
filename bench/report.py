"""Figures as a table, as lines about the targets, and as JSON."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench import record
from bench.cases import Case
from bench.measure import Cell, Results, plain
from bench.runners import FLOOR, OURS
from bench.targets import TARGETS

machine = record.machine


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
            runner = "" if target.runner == OURS else f" on {target.runner}"
            console.print(word, f"{titles[target.case]}{runner}: {shown} {wanted}", highlight=False)
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
    record.write(
        path,
        title="The engines",
        command="make bench",
        cases=plain(results, cases),
        targets=[_judged(target, results) for target in TARGETS if target.case in results],
    )


def _judged(target: Any, results: Results) -> dict[str, Any]:
    figure, is_reached = target.judge(results)
    return record.target(
        target.case, figure, target.limit, target.unit, is_reached=is_reached, runner=target.runner, sense=target.sense,
        than=target.than,
    )  # fmt: skip
