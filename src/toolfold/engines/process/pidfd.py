"""Descriptors of processes: they cannot come to mean another process, but some calls take numbers only."""

from __future__ import annotations

import re
from typing import Final

_PID: Final = re.compile(r"^Pid:\s*(\d+)$", re.MULTILINE)


def pid_of(pidfd: int) -> int:
    """Its number as this process sees it; 0 if it is gone."""
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
            found = _PID.search(file.read())
    except OSError:
        return 0
    return int(found[1]) if found else 0
