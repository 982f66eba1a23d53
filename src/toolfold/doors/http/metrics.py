"""Counts for `/metrics`, in Prometheus' text form. By hand: a dozen lines against one more package."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

_HELP: Final = {
    "toolfold_http_executions_total": ("counter", "Executions that ended, by status."),
    "toolfold_http_rounds_total": ("counter", "Pauses that were answered with tool calls."),
    "toolfold_http_timeouts_total": ("counter", "Executions that ran out of time, running or paused."),
    "toolfold_http_refusals_total": ("counter", "Requests that were turned away, by HTTP status."),
    "toolfold_http_uploaded_bytes_total": ("counter", "Bytes of uploaded files."),
    "toolfold_http_queue_seconds_total": ("counter", "Seconds that requests waited for their tenant's turn."),
    "toolfold_http_execution_rounds_total": ("counter", "Ended executions, by their number of rounds."),
    "toolfold_http_paused": ("gauge", "Executions that are paused now."),
    "toolfold_http_running": ("gauge", "Requests whose program runs now."),
}


class Metrics:
    """Counters by name and label."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.running = 0

    def add(self, name: str, amount: float = 1, **label: str | int) -> None:
        """Count; at most one label."""
        text = "".join(f'{{{key}="{value}"}}' for key, value in label.items())
        self._counts[f"toolfold_http_{name}_total", text] += amount

    def render(self, *, paused: int) -> str:
        """All of them, with what is true now."""
        now = {"toolfold_http_paused": paused, "toolfold_http_running": self.running}
        lines = []
        for name, (kind, help_text) in _HELP.items():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            if name in now:
                lines.append(f"{name} {now[name]}")
                continue
            found = sorted((label, count) for (one, label), count in self._counts.items() if one == name)
            lines += [f"{name}{label} {count:g}" for label, count in found] or [f"{name} 0"]
        return "\n".join(lines) + "\n"
