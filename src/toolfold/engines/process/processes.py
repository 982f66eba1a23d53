"""How many processes and threads all guests together may have, so that there is always room to start another."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_LARGEST_RESERVE: Final = 1024
_OWN_CGROUP: Final = re.compile(r"^\d+:(?:|.*\bpids\b.*):(/.*)$", re.MULTILINE)


def most_processes(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """What this machine, this container and this user have, less a quarter (at most 1024) that guests cannot take."""
    # The least of all counts: whichever is reached first refuses the fork.
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    kernel = [_number(proc / "sys/kernel" / name) for name in ("threads-max", "pid_max")]
    found = [hard if hard != resource.RLIM_INFINITY else None, *kernel, *_left_in_cgroups(proc, cgroups)]
    room = min((number for number in found if number is not None), default=_LARGEST_RESERVE * 4)
    return max(1, room - min(room // 4, _LARGEST_RESERVE))


def _left_in_cgroups(proc: Path, cgroups: Path) -> list[int]:
    """Of the cgroup that this process is in and of those around it."""
    try:
        own = _OWN_CGROUP.findall((proc / "self/cgroup").read_text(encoding="utf-8"))
    except OSError:
        return []
    folders = {folder for path in own for root in (cgroups, cgroups / "pids") for folder in _upwards(root, path)}
    limits = [(_number(folder / "pids.max"), _number(folder / "pids.current")) for folder in folders]
    return [max(0, most - (now or 0)) for most, now in limits if most is not None]


def _upwards(root: Path, path: str) -> list[Path]:
    """In a container the path may be the host's: then only the root of what is mounted is there."""
    below = root / path.lstrip("/")
    return [below, *(folder for folder in below.parents if folder == root or root in folder.parents)]


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or "max"
        return None
