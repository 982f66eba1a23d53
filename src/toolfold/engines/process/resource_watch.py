"""Process tree of a guest whose program starts processes: what all of them use together, and when that is too much.

The kernel limits each process; only a cgroup limits the memory of all together, and few hosts hand one out. Without
one, and for processor time, the host adds up what `/proc` says of the guest and its descendants, a few times a second,
and stops the program over its limit. Between two looks it can take more than it may: `docs/bash.md` says how much.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from toolfold.engines.process.guest import PAGE_BYTES
from toolfold.engines.process.zygote_launch import pid_of
from toolfold.models import Problem

if TYPE_CHECKING:
    from toolfold.engines.process.guest import Guest
    from toolfold.models import Limits

LOOK_SECONDS: Final = 0.03
_MOST_LOOK_SHARE: Final = 20
"""Of the time between two looks, the part that a look may take: a tree of many processes is looked at less often."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_OWN_TIMES, _TIMES = slice(11, 13), slice(11, 15)
"""User and system time in `stat`, of the process and of the children that it has waited for; counted after the name."""
_FREE_DESCRIPTORS, _MANY_DESCRIPTORS = 32, 256
_DESCRIPTOR_BYTES: Final = 104 * 1024
"""Counted as memory for each further one of a process: as much lies in a full socket, and the kernel tells nobody."""


class TreeUsage(NamedTuple):
    """Resources of all processes of one guest."""

    cpu_seconds: float
    memory_bytes: int
    ticks: dict[int, int]
    """Processor time of each process, without its children."""


def tree_usage(pid: int, *, with_memory: bool) -> TreeUsage:
    """What the process and its descendants use now, pages of files apart."""
    own: dict[int, int] = {}
    ticks = memory_bytes = 0
    for process, threads in descendants(pid):
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                words = file.read().rpartition(b") ")[2].split()
            memory_bytes += _memory_bytes(process, threads, is_ours=process == pid) if with_memory else 0
        except OSError:  # it ended meanwhile; whoever waited for it has its time
            continue
        ticks += sum(map(int, words[_TIMES]))
        own[process] = sum(map(int, words[_OWN_TIMES]))
    return TreeUsage(ticks / _TICKS, memory_bytes, own)


def _memory_bytes(process: int, threads: list[str], *, is_ours: bool) -> int:
    # A thread that has ended has neither memory nor files, and the first may end before the others.
    for thread in threads:
        folder = f"/proc/{process}/task/{thread}"
        with open(f"{folder}/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
        if resident:
            return (resident - shared) * PAGE_BYTES + (0 if is_ours else _descriptor_bytes(f"{folder}/fd"))
    return 0


def _descriptor_bytes(folder: str) -> int:
    try:
        count = len(os.listdir(folder))
    except PermissionError:  # a command that nobody may read
        count = _MANY_DESCRIPTORS
    return max(0, count - _FREE_DESCRIPTORS) * _DESCRIPTOR_BYTES


def descendants(pid: int) -> Iterator[tuple[int, list[str]]]:
    """The process and all that it and they have started, each with its threads."""
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        threads = []
        try:
            threads = os.listdir(f"/proc/{process}/task")
            for thread in threads:
                with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                    waiting += map(int, file.read().split())
        except OSError:
            pass
        yield process, threads


class TreeWatch:
    """Looks at one guest until it is stopped.

    Args:
        guest: The first process of the tree.
        limits: Of the whole program.
        stop: Told once why the program must end.
    """

    def __init__(self, guest: Guest, limits: Limits, stop: Callable[[Problem], None]) -> None:
        self._guest = guest
        self._limits = limits
        self._stop = stop
        self._last: dict[int, int] = {}
        self._ticks = 0
        """Seen of all processes; a child that nobody waits for is in no other sum."""
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        self._timer.cancel()

    def memory_problem(self) -> Problem | None:
        """What the program is stopped for if the kernel found it over its memory."""
        cgroup = self._guest.cgroup
        return self._memory_problem() if cgroup is not None and cgroup.is_full() else None

    def _memory_problem(self) -> Problem:
        most = self._limits.memory_bytes >> 20
        return Problem(kind="memory", message=f"the program's processes used more than {most} MiB of memory")

    def _look(self) -> None:
        began = time.thread_time()
        if self._guest.pidfd < 0:
            return
        usage = tree_usage(pid_of(self._guest.pidfd), with_memory=self._guest.cgroup is None)
        self._ticks += sum(max(0, ticks - self._last.get(process, 0)) for process, ticks in usage.ticks.items())
        self._last = usage.ticks
        if usage.memory_bytes > self._limits.memory_bytes or self.memory_problem() is not None:
            self._stop(self._memory_problem())
        elif max(usage.cpu_seconds, self._ticks / _TICKS) > self._limits.cpu_seconds:
            message = f"the program's processes used {self._limits.cpu_seconds} s of CPU time"
            self._stop(Problem(kind="cpu", message=message))
        else:
            seconds = max(LOOK_SECONDS, _MOST_LOOK_SHARE * (time.thread_time() - began))
            self._timer = self._loop.call_later(seconds, self._look)
