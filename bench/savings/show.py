"""What was counted, as tables and as cases of the benchmarks' JSON. Names where programs lose."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import record
from bench.savings.counting import Assumed, Counted, Figures, total
from bench.savings.replay import ONE_REQUEST, PARALLEL, PROGRAM, PROGRAM_LAST, WAYS
from bench.savings.task import Task

Results = Sequence[tuple[Task, Mapping[str, Counted]]]
Measure = Callable[[Figures], float]

BUCKETS = {"1 call": (1, 1), "2 calls": (2, 2), "3 or 4 calls": (3, 4), "5 calls or more": (5, 10_000)}


def measures(assumed: Assumed) -> dict[str, tuple[str, Measure]]:
    """By name: the unit and the figure."""
    return {
        "requests": ("", lambda one: one.requests),
        "input tokens": ("tokens", lambda one: one.input),
        "input tokens, cached at a tenth": ("tokens", lambda one: one.cached_input),
        "output tokens": ("tokens", lambda one: one.output),
        "price": ("input tokens", lambda one: one.price(assumed)),
        "time of the model": ("s", lambda one: one.seconds(assumed)),
        "largest context": ("tokens", lambda one: one.context),
    }


def show_group(console: Console, title: str, results: Results, assumed: Assumed) -> None:
    """Sums over all tasks, by way, with the ratio to parallel direct calls."""
    table = Table("", *WAYS, title=title)
    for name, (_, measure) in measures(assumed).items():
        figures = sums(results, measure)
        base = figures[PARALLEL]
        table.add_row(name, *(f"{_number(figure)}\n{figure / base:.2f}×" for figure in figures.values()))
    console.print(table)


def show_losses(console: Console, results: Results, assumed: Assumed) -> None:
    """In how many tasks a program is the worse way, by measure and by baseline."""
    table = Table("tasks in which programs lose", *(f"{way}\nto {base}" for way, base in _PAIRS))
    for name, lost in losses(results, assumed).items():
        table.add_row(name, *(f"{one} of {len(results)}" for one in lost.values()))
    console.print(table)


def show_turns(console: Console, results: Results, assumed: Assumed) -> None:
    """Where the losses come from: single turns, by how many calls are in them."""
    table = Table("turns with", "turns", *(f"{name}\nlost · median ratio" for name in _TURN_MEASURES))
    for bucket, row in turn_table(results, assumed).items():
        cells = (f"{row[name]['lost']} · {row[name]['ratio']:.2f}×" for name in _TURN_MEASURES)
        table.add_row(bucket, str(row["turns"]), *cells)
    console.print(table)
    console.print(f"each turn as a conversation of its own; {PROGRAM!r} beside {PARALLEL!r}")


def show_examples(console: Console, results: Results, assumed: Assumed) -> None:
    """One by one: calls, and each way's figures."""
    for task, counted in results:
        ways = (WAYS[0], PARALLEL, ONE_REQUEST, PROGRAM)
        table = Table(f"{task.name}, {len(task.turns[0].calls)} calls", *ways[:-1], "program")
        for name, (_, measure) in measures(assumed).items():
            base = measure(counted[PARALLEL].whole)
            figures = (measure(counted[way].whole) for way in ways)
            table.add_row(name, *(f"{_number(figure)}  {figure / base:.2f}×" for figure in figures))
        console.print(table)


def _number(figure: float) -> str:
    return f"{figure:.1f}" if figure < 100 and figure != int(figure) else f"{figure:,.0f}"


def sums(results: Results, measure: Measure) -> dict[str, float]:
    return {way: measure(total(counted[way].whole for _, counted in results)) for way in WAYS}


_PAIRS = ((PROGRAM, PARALLEL), (PROGRAM, ONE_REQUEST), (PROGRAM_LAST, PARALLEL))


def losses(results: Results, assumed: Assumed) -> dict[str, dict[str, int]]:
    """By measure and by pair: tasks in which the program costs more."""
    return {
        name: {
            f"{way} / {base}": sum(measure(one[way].whole) > measure(one[base].whole) for _, one in results)
            for way, base in _PAIRS
        }
        for name, (_, measure) in measures(assumed).items()
    }


_TURN_MEASURES = ("requests", "input tokens", "price", "time of the model")


def turn_table(results: Results, assumed: Assumed) -> dict[str, dict[str, Any]]:
    """By number of calls: how many turns, in how many a program loses, and by how much."""
    rows: dict[str, dict[str, Any]] = {}
    for bucket, (fewest, most) in BUCKETS.items():
        turns = [
            (counted[PROGRAM].turns[index], counted[PARALLEL].turns[index])
            for task, counted in results
            for index, turn in enumerate(task.turns)
            if fewest <= len(turn.calls) <= most
        ]
        row: dict[str, Any] = {"turns": len(turns)}
        for name in _TURN_MEASURES:
            pairs = _pairs(turns, measures(assumed)[name][1])
            lost = sum(program > direct for program, direct in pairs)
            row[name] = {"lost": lost, "ratio": statistics.median(p / d for p, d in pairs) if pairs else 0.0}
        rows[bucket] = row
    return rows


def _pairs(turns: Iterable[tuple[Figures, Figures]], measure: Measure) -> list[tuple[float, float]]:
    return [(measure(program), measure(direct)) for program, direct in turns]


def context_saved(groups: Mapping[str, Results]) -> str:
    """What the outcomes themselves say, in one line."""
    said = (
        f"{group} {sum(counted[PROGRAM].context_saved for _, counted in results):,}"
        for group, results in groups.items()
    )
    return f"`context_saved` of the outcomes, in tokens, for {PROGRAM!r}: {'; '.join(said)}"


def cases(groups: Mapping[str, Results], assumed: Assumed) -> dict[str, Any]:
    """Every figure, as the benchmarks' JSON has cases."""
    found = {}
    for group, results in groups.items():
        for name, (unit, measure) in measures(assumed).items():
            found[f"{group}: {name}"] = record.case(f"{group}: {name}", unit, sums(results, measure))
    return found
