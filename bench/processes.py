"""What Linux tells of processes: who descends from us, and how much memory is whose."""

import os
from collections.abc import Iterable
from pathlib import Path


def descendants() -> dict[int, int]:
    """Every living process under this one: its id, and its parent's."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended between the two looks
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    return {pid: parent for pid, parent in parents.items() if os.getpid() in _ancestors(pid, parents)}


def _ancestors(pid: int, parents: dict[int, int]) -> Iterable[int]:
    while pid in parents:
        pid = parents[pid]
        yield pid


def pss_bytes(pid: int) -> int:
    """Memory of one process; a page that n processes share counts as a 1/n for each."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no PSS for process {pid}")
