"""What our figures must reach beside the peers', and why a case may be lost."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.measure import Cell, Results
from bench.peers.roster import OURS, PEERS


@dataclass(frozen=True, slots=True)
class Target:
    """Our figure of a case is at most `limit` times the other's."""

    case: str
    than: str
    limit: float

    def judge(self, results: Results) -> tuple[float | None, bool | None]:
        """The ratio, and whether it is reached; `None` where one of the two has no figure."""
        ours, other = (results[self.case][name].figure for name in (OURS, self.than))
        if ours is None or not other:
            return None, None
        return ours / other, ours / other <= self.limit


TARGETS = (
    Target("empty", "harness", 0.2),
    Target("empty", "fastmcp", 0.12),
    Target("sequential", "harness", 0.15),
    Target("sequential", "fastmcp", 0.15),
    Target("sequential", "monty", 0.5),
    Target("rows", "monty", 0.3),
)

REASONS = {
    "empty": "Monty, alone or inside a peer, builds no jail; here each program has a process of its own, locked down "
    "before it and thrown away after it",
    "sequential": "a call here goes from a jailed process to the host's router, which checks it against schema, policy "
    "and limits and records it; Monty's client hands it to a function",
    "gather-slow": "most of it is the 50 ms that every call takes; the rest is the cost of a call",
    "gather": "as for sequential calls",
    "rows": "a reply is encoded, sent to another process and decoded there",
    "pandas": "the libraries are loaded before, but each program works on its own copy of the pages that it touches",
    "rate": "as for an empty program: for each one a process is made, locked down and ended",
}


@dataclass(frozen=True, slots=True)
class Loss:
    case: str
    peer: str
    ratio: float
    """How many times better the peer is."""


def losses(results: Results) -> Iterator[Loss]:
    """Every case in which a peer is ahead of us, whether or not it isolates; the floor is no peer."""
    for case, cells in results.items():
        ours = cells[OURS].figure
        for peer, ratio in _ratios(cells, ours):
            if ratio > 1:
                yield Loss(case, peer, ratio)


def _ratios(cells: Mapping[str, Cell], ours: float | None) -> Iterator[tuple[str, float]]:
    for peer, cell in cells.items():
        if ours and cell.figure and peer != OURS and PEERS[peer].packages:
            yield peer, cell.figure / ours if cell.higher_is_better else ours / cell.figure
