"""What the figures must reach, as ratios to parallel direct calls."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.savings import interfaces, show
from bench.savings.counting import Assumed, Counted
from bench.savings.replay import PARALLEL, PROGRAM, PROGRAM_LAST
from bench.savings.task import Task

BASE, LONG = "multi_turn_base", "multi_turn_long_context"
RATIOS = (
    (BASE, PROGRAM, {"input tokens": 0.72, "price": 0.85, "largest context": 0.80}),
    (LONG, PROGRAM, {"input tokens": 0.95, "price": 1.01, "largest context": 1.12}),
    (LONG, PROGRAM_LAST, {"input tokens": 0.72, "price": 0.78, "largest context": 0.80}),
)
MOST_LOST = 59
"""Tasks of both groups whose price is higher than that of parallel direct calls."""
SIGNATURES = 0.60
FIXED_TOKENS = 320
HEAD_TOKENS = 40
ONE_CALL_TOKENS = 420


class Judged(NamedTuple):
    name: str
    figure: float
    limit: float
    is_met: bool


def judged(
    groups: Mapping[str, show.Results], own: Mapping[str, Mapping[str, Counted]], means: Mapping[str, float],
    assumed: Assumed,
) -> list[Judged]:  # fmt: skip
    """Every target with its figure."""
    found: list[tuple[str, float, float]] = []
    for group, way, limits in RATIOS:
        for name, limit in limits.items():
            figures = show.sums(groups[group], show.measures(assumed)[name][1])
            found.append((f"{group}, {way}: {name}", figures[way] / figures[PARALLEL], limit))
    public: list[tuple[Task, Mapping[str, Counted]]] = [one for results in groups.values() for one in results]
    lost = show.losses(public, assumed)
    pair = f"{PROGRAM} / {PARALLEL}"
    base: Sequence[tuple[Task, Mapping[str, Counted]]] = groups[BASE]
    found += [(f"{BASE}, tasks lost in {name}", show.losses(base, assumed)[name][pair], 0) for name in RATIOS[0][2]]
    found.append(("tasks of both groups lost in price", lost["price"][pair], MOST_LOST))
    one = own["one small call"][PROGRAM].whole
    found += [
        ("signatures to JSON definitions", means[interfaces.SIGNATURES] / means[interfaces.JSON], SIGNATURES),
        ("fixed text of the MCP interface, tokens", means[interfaces.FIXED], FIXED_TOKENS),
        ("the line that explains the form, tokens", means[interfaces.HEAD], HEAD_TOKENS),
        ("one small call, input tokens a request", one.input / one.requests, ONE_CALL_TOKENS),
    ]
    return [Judged(name, figure, limit, figure <= limit) for name, figure, limit in found]


def show_targets(console: Console, results: Sequence[Judged]) -> None:
    """With met or MISSED."""
    table = Table("target", "figure", "at most", "")
    for one in results:
        table.add_row(one.name, f"{one.figure:.4g}", f"{one.limit:g}", "met" if one.is_met else "MISSED")
    console.print(table)
