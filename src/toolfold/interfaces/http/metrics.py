"""Metrics for `/metrics`, in the Prometheus text format, written without a client library."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolfold.engines.base import NodeLoad

_HELP: Final = {
    "toolfold_http_executions_total": ("counter", "Executions that ended, by status."),
    "toolfold_http_problems_total": ("counter", "Executions that did not finish, by the kind of their problem."),
    "toolfold_http_timeouts_total": ("counter", "Executions that ran out of time, running, waiting or paused."),
    "toolfold_http_rounds_total": ("counter", "Pauses that were answered with tool calls."),
    "toolfold_http_execution_rounds": ("histogram", "Rounds of each execution that ended."),
    "toolfold_http_queue_seconds": ("histogram", "Seconds that each request waited for its tenant's turn."),
    "toolfold_http_refusals_total": ("counter", "Requests that were turned away, by HTTP status."),
    "toolfold_http_forwarded_total": ("counter", "Requests that another replica answered."),
    "toolfold_http_lost_total": ("counter", "Executions that another replica took over from this one."),
    "toolfold_http_uploaded_bytes_total": ("counter", "Bytes of uploaded files."),
    "toolfold_http_paused": ("gauge", "Executions that are paused now."),
    "toolfold_http_running": ("gauge", "Requests whose program runs now."),
    "toolfold_http_guests": ("gauge", "Sandboxes that run a program, are paused or wait for one now."),
    "toolfold_http_guest_memory_bytes": ("gauge", "Memory of all sandboxes now; shared pages are divided among them."),
}
_OF_NODE: Final = {
    "toolfold_http_node_guests": ("gauge", "Guests of the node, as it last said.", "guests"),
    "toolfold_http_node_guest_memory_bytes": ("gauge", "Memory of its guests, as it last said.", "guest_memory_bytes"),
    "toolfold_http_node_programs": ("gauge", "Programs that run, wait or are paused there now.", "programs"),
    "toolfold_http_node_started_total": ("counter", "Programs that began there.", "started"),
    "toolfold_http_node_moved_total": ("counter", "Programs that went on elsewhere when it was lost.", "moved"),
}
_BOUNDS: Final[dict[str, tuple[float, ...]]] = {
    "toolfold_http_execution_rounds": (0, 1, 2, 5, 10, 20, 50, 100),
    "toolfold_http_queue_seconds": (0.001, 0.01, 0.1, 0.5, 1, 5, 30, 60),
}


class Metrics:
    """Counters by name and label, and histograms by name."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._buckets = {name: [0] * (len(bounds) + 1) for name, bounds in _BOUNDS.items()}
        self._sums = dict.fromkeys(_BOUNDS, 0.0)
        self.running = 0

    def add(self, name: str, amount: float = 1, **label: str | int) -> None:
        """Count; at most one label."""
        text = "".join(f'{{{key}="{value}"}}' for key, value in label.items())
        self._counts[f"toolfold_http_{name}_total", text] += amount

    def end(self, status: str) -> None:
        self.add("executions", status=status)
        if status == "timeout":
            self.add("timeouts")

    def observe(self, name: str, value: float) -> None:
        name = f"toolfold_http_{name}"
        self._buckets[name][bisect_left(_BOUNDS[name], value)] += 1
        self._sums[name] += value

    def render(self, nodes: Sequence[NodeLoad] = (), **now: int) -> str:
        """All metrics, with gauges that the caller knows, such as `paused=3`, and those of each node."""
        gauges = {f"toolfold_http_{name}": value for name, value in now.items()}
        gauges["toolfold_http_running"] = self.running
        lines = []
        for name, (kind, help_text) in _HELP.items():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            match kind:
                case "gauge":
                    lines.append(f"{name} {gauges[name]}")
                case "histogram":
                    lines += self._histogram(name)
                case _:
                    counts = sorted((label, count) for (entry, label), count in self._counts.items() if entry == name)
                    lines += [f"{name}{label} {count:.15g}" for label, count in counts] or [f"{name} 0"]
        for name, (kind, help_text, field) in (_OF_NODE if nodes else {}).items():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            lines += [f'{name}{{node="{entry.address}"}} {getattr(entry, field)}' for entry in nodes]
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        lines, count = [], 0
        for bound, more in zip((*_BOUNDS[name], "+Inf"), self._buckets[name], strict=True):
            count += more
            lines.append(f'{name}_bucket{{le="{bound}"}} {count}')
        return [*lines, f"{name}_sum {self._sums[name]:.15g}", f"{name}_count {count}"]
