"""The cores that a process may run on, asked and set; `placement` says why. Nothing here fails: a core is a wish."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable


def allowed(pid: int) -> set[int]:
    """Where that process may run; nothing if it cannot be told, and then it is left alone."""
    try:
        return os.sched_getaffinity(pid) if pid else set()
    except (AttributeError, OSError):  # not Linux; or it is gone, or not ours to ask
        return set()


def put(pid: int, chosen: set[int]) -> None:
    """It wakes up on one of these from now on, and stays where it runs if it may."""
    # An empty set would be refused by the kernel; on a machine with one core there is no other to choose.
    try:
        if pid and chosen:
            os.sched_setaffinity(pid, chosen)
    except OSError:
        # Gone, or not ours to move: then it wakes where the kernel wants.
        return


def _find() -> Callable[[], int]:
    try:
        found: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError, TypeError):  # a C library without it
        return lambda: -1
    return found


current_core = _find()
"""The core that we run on now; the kernel may move us at any time."""
