"""Clock for deadlines: seconds since 1970 that pass evenly, whoever sets the clock of the machine.

A deadline that other processes read must mean the same to all of them, so each ledger has one clock: `Ledger.now`. It
is set by the ledger's server, or once by the machine's own clock, and then follows a clock that nobody can set.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

# Counts while the machine sleeps, which the monotonic clock of Linux does not.
_STEADY: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class SteadyClock:
    """The time of day when the clock was set, plus the time since; `lead` is its distance to the steady clock."""

    __slots__ = ("lead",)

    def __init__(self, lead: float | None = None) -> None:
        self.lead = time.time() - steady_seconds() if lead is None else lead

    def now(self) -> float:
        """Seconds since 1970."""
        return steady_seconds() + self.lead

    def earliest(self) -> float:
        """The earlier of this and the machine's time: nothing is older than by this, whenever that was set."""
        return min(self.now(), time.time())


def steady_seconds() -> float:
    """Since the machine started; a clock that nobody can set."""
    if sys.platform == "win32" or _STEADY is None:
        return time.monotonic()
    return time.clock_gettime(_STEADY)


def boot_id() -> str:
    """Another one each time the machine starts, and its steady clock with it; empty where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
