"""On which core a guest wakes up.

The kernel wakes a process where it slept, or near whoever wakes it, and there the host has work to do just then:
the guest would have to wait for it. So the host's core is not for a guest that is about to be woken.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress


def keep_off_ours(pid: int) -> set[int]:
    """From now on that process wakes up on another core than ours. Returns what to `free` it to, if anything."""
    if not pid or not hasattr(os, "sched_setaffinity"):
        return set()
    allowed = os.sched_getaffinity(0)
    others = allowed - {_current()}
    if not others or others == allowed:
        return set()
    with suppress(OSError):  # it may be gone, or not ours to move
        os.sched_setaffinity(pid, others)
        return allowed
    return set()


def keep_to_ours(pid: int) -> set[int]:
    """From now on that process wakes up on our core, as soon as we sleep. Returns what to `free` it to, if anything."""
    if not pid or not hasattr(os, "sched_setaffinity"):
        return set()
    allowed = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(pid, allowed & {_current()} or allowed)
        return allowed
    return set()


def free(pid: int, allowed: set[int]) -> None:
    """These cores for it again. It stays where it runs."""
    if allowed:
        with suppress(OSError):
            os.sched_setaffinity(pid, allowed)


def _find() -> Callable[[], int]:
    try:
        found: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError):  # a C library without it
        return lambda: -1
    return found


_current = _find()
