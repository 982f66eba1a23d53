"""The figures as a table with notes, as lines about targets and losses, and as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench import record
from bench.cases import Case
from bench.measure import Cell, Results, plain
from bench.peers.client import versions
from bench.peers.roster import FLOOR, OURS, PEERS
from bench.peers.targets import REASONS, TARGETS, Loss, Target, losses


def show(results: Results, cases: Sequence[Case], console: Console) -> None:
    """Print everything."""
    notes: dict[str, int] = {}
    console.print(_table(results, cases, notes))
    console.print(f"the median over rounds of the quietest pass; × is the time of {OURS} in it, then that of {FLOOR}")
    for text, mark in notes.items():
        console.print(f"  ({mark}) {text}", highlight=False, markup=False)
    console.print("\nwhat stands between a program and the host")
    for name in next(iter(results.values())):
        console.print(f"  {PEERS[name].title}: {PEERS[name].isolation}", highlight=False, markup=False)
    titles = {case.name: case.title for case in cases}
    _show_targets(results, titles, console)
    _show_losses(results, titles, console)


def _table(results: Results, cases: Sequence[Case], notes: dict[str, int]) -> Table:
    table = Table("", *(case.title for case in cases), show_lines=True)
    for name in next(iter(results.values())):
        version = " ".join(versions(name).values()).split(" ")[0]
        cells = [_cell(results[case.name], name, case.unit, notes) for case in cases]
        table.add_row(Text(PEERS[name].title, "bold" if name == OURS else "").append(f"\n{version}", "dim"), *cells)
    return table


def _cell(cells: dict[str, Cell], name: str, unit: str, notes: dict[str, int]) -> Text:
    cell = cells[name]
    if cell.figure is None:
        words = cell.error or "not measured"
        is_out = words.startswith("not installed")
        mark = notes.setdefault(f"{PEERS[name].title}: {words}", len(notes) + 1)
        return Text(f"{'NOT RUN' if is_out else 'cannot'} ({mark})", "dim")
    text = Text(f"{_number(cell.figure)} {unit}", "bold" if name == OURS else "")
    bases = [cells[base].figure if base in cells else None for base in (OURS, FLOOR)]
    ratios = ["–" if not base else f"{_number(_ratio(cell, base))}×" for base in bases]
    return text.append(f"\n{ratios[0]} · {ratios[1]}", "not bold dim")


def _ratio(cell: Cell, base: float) -> float:
    assert cell.figure is not None
    return base / cell.figure if cell.higher_is_better else cell.figure / base


def _show_targets(results: Results, titles: dict[str, str], console: Console) -> None:
    console.print("\ntargets")
    for target in TARGETS:
        if target.case in titles and target.than in results[target.case]:
            ratio, is_met = target.judge(results)
            word = {True: Text("MET", "green"), False: Text("MISSED", "bold red"), None: Text("NO FIGURE", "red")}[
                is_met
            ]
            shown = "" if ratio is None else f"{ratio:.3f} × "
            wanted = f"(at most {target.limit:g} ×)"
            console.print(word, f"{titles[target.case]}: {shown}{PEERS[target.than].title} {wanted}", highlight=False)


def _show_losses(results: Results, titles: dict[str, str], console: Console) -> None:
    lost = list(losses(results))
    if not lost:
        console.print("\nno peer is ahead in any case", highlight=False)
        return
    console.print("\nwhere a peer is ahead of us")
    for loss in lost:
        words = f"  {titles[loss.case]}: {PEERS[loss.peer].title} by {loss.ratio:.2f} ×; {_why(loss)}"
        console.print(words, highlight=False, markup=False)


def write(results: Results, cases: Sequence[Case], path: Path, *, how: str) -> None:
    """Every sample, and who took part."""
    names = list(next(iter(results.values())))
    record.write(
        path,
        title="The same programs on other code modes",
        command="make bench NAME=peers",
        notes=[how, *map(_note, losses(results))],
        ours=OURS,
        floor=FLOOR,
        runners={
            name: {
                "title": PEERS[name].title,
                "isolation": PEERS[name].isolation,
                "isolates": PEERS[name].isolates,
                "versions": versions(name),
            }
            for name in names
        },
        cases=plain(results, cases),
        targets=[_judged(target, results) for target in TARGETS if target.than in results.get(target.case, {})],
    )


def _judged(target: Target, results: Results) -> dict[str, Any]:
    ratio, is_met = target.judge(results)
    return record.target(target.case, ratio, target.limit, "×", is_reached=is_met, than=target.than)


def _note(loss: Loss) -> str:
    return f"{PEERS[loss.peer].title} is ahead in {loss.case!r} by {loss.ratio:.2f} ×; {_why(loss)}"


def _why(loss: Loss) -> str:
    peer = PEERS[loss.peer]
    return REASONS[loss.case] if peer.isolates else f"what keeps its programs in: {peer.isolation}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
