"""How long the ledger keeps what, and when it is time to look. Pure: the stores do the forgetting."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from toolfold.models import MIB

_DAY: Final = 86_400.0
_LOOK_EVERY_SECONDS: Final = 300.0
_SLACK: Final = 20
"""A limit may be passed by a twentieth before it is looked at out of turn."""

_LEAST_OPEN_SECONDS: Final = 3600.0
EXPIRED_SECONDS: Final = 600.0
"""So long after its `expires_at` an execution that has not ended is forgotten: whoever held it has ended it by then."""

MAX_EXECUTION_BYTES: Final = 128 * MIB
"""What one execution may keep, unless told otherwise: the files it began with, its calls, its replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What may stay. The oldest that ended go first; every limit holds at the same time."""

    age_seconds: float = 30 * _DAY
    """Since the last word of an execution that ended."""
    open_age_seconds: float | None = None
    """The same for one that is paused, or was cut off; `None`: as `age_seconds`, at least an hour. A younger one is
    never forgotten, unless it has expired."""
    total_bytes: int = 1024 * MIB
    executions: int = 100_000

    @property
    def open_seconds(self) -> float:
        """The age at which one that has not ended is forgotten."""
        return max(self.age_seconds, _LEAST_OPEN_SECONDS) if self.open_age_seconds is None else self.open_age_seconds


class Schedule:
    """Says when a look is due: after the first write, now and then, and sooner after many. Not for who only reads."""

    def __init__(self, keep: Retention) -> None:
        self.keep = keep
        self._next = time.monotonic() + _LOOK_EVERY_SECONDS
        self._is_first = True
        self._bytes = 0
        self._executions = 0

    def wrote(self, size_bytes: int, executions: int) -> None:
        """Count what was added."""
        self._bytes += size_bytes
        self._executions += executions

    def is_due(self) -> bool:
        """Whether to look now; a `True` starts the count anew."""
        is_due = (
            time.monotonic() >= self._next
            or (self._is_first and self._bytes > 0)
            or self._bytes > self.keep.total_bytes // _SLACK
            or self._executions > self.keep.executions // _SLACK
        )
        if is_due:
            self._next = time.monotonic() + _LOOK_EVERY_SECONDS
            self._bytes = self._executions = 0
            self._is_first = False
        return is_due

    def hasten(self) -> None:
        """There may be more to forget: look again after the next write."""
        self._next = 0.0
