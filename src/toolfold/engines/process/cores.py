"""On which core a guest wakes up.

The kernel wakes a process where it slept, or near whoever wakes it, and there the host has work to do just then:
the guest would have to wait for it. So the host's core is not for a guest that is about to be woken.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress


def keep_off(core: int, pid: int) -> set[int]:
    """From now on that process wakes up on another core. Returns what to `free` it to, if anything."""
    return _restrict(pid, lambda allowed: allowed - {core})


def keep_to(core: int, pid: int) -> set[int]:
    """From now on that process wakes up on this core. Returns what to `free` it to, if anything."""
    return _restrict(pid, lambda allowed: allowed & {core})


def free(pid: int, allowed: set[int]) -> None:
    """These cores for it again. It stays where it runs."""
    if allowed:
        with suppress(OSError):
            os.sched_setaffinity(pid, allowed)


def _restrict(pid: int, choose: Callable[[set[int]], set[int]]) -> set[int]:
    if not pid or not hasattr(os, "sched_setaffinity"):
        return set()
    allowed = os.sched_getaffinity(0)
    chosen = choose(allowed)
    if not chosen or chosen == allowed:
        return set()
    with suppress(OSError):  # it may be gone, or not ours to move
        os.sched_setaffinity(pid, chosen)
        return allowed
    return set()


def _find() -> Callable[[], int]:
    try:
        found: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError):  # a C library without it
        return lambda: -1
    return found


ours = _find()
"""The core that we run on now; the kernel may move us at any time."""
