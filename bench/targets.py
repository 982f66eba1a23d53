"""What the figures must reach, on a machine with two cores."""

from dataclasses import dataclass
from typing import Literal

from bench.measure import Results
from bench.runners import FLOOR, OURS, WASM

MONTY = "monty"


@dataclass(frozen=True, slots=True)
class Target:
    case: str
    limit: float
    unit: str
    than: str | None = None
    """The figure is a ratio to this runner's."""
    sense: Literal["at most", "at least"] = "at most"
    runner: str = OURS

    def judge(self, results: Results) -> tuple[float | None, bool]:
        """The figure, and whether it is reached; no figure is a miss."""
        cells = results[self.case]
        figure = cells[self.runner].figure
        if figure is not None and self.than is not None:
            other = cells[self.than].figure
            figure = figure / other if other else None
        if figure is None:
            return None, False
        return figure, figure <= self.limit if self.sense == "at most" else figure >= self.limit


TARGETS = (
    Target("empty", 0.8, "ms"),
    Target("sequential", 120, "µs"),
    Target("sequential", 0.6, "×", MONTY),
    Target("gather", 30, "µs"),
    Target("rate", 400, "/s", sense="at least"),
    Target("gather-slow", 60, "ms"),
    Target("rows", 3.5, "×", FLOOR),
    Target("pandas", 2.2, "×", FLOOR),
    Target("bash-empty", 10, "ms"),
    Target("paused", 2.5, "MB"),
    Target("paused-data", 4.0, "MB"),
    Target("empty", 3, "ms", runner=WASM),
    Target("pandas-small", 30, "ms", runner=WASM),
    Target("sequential", 150, "µs", runner=WASM),
    Target("gather", 60, "µs", runner=WASM),
    Target("rate", 150, "/s", sense="at least", runner=WASM),
    Target("pandas", 3, "×", FLOOR, runner=WASM),
    Target("paused", 15, "MB", runner=WASM),
)
