"""What guests hold, as the kernel counts it. Asked for by whoever measures, never while a program runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from toolfold.engines.process.pidfd import pid_of

_SHARE: Final = re.compile(r"^Pss:\s*(\d+) kB$", re.MULTILINE)
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def held_bytes(pidfds: Iterable[int]) -> int:
    """Memory of these processes; of pages that several share each has its part."""
    return sum(map(_held, pidfds))


def _held(pidfd: int) -> int:
    try:
        folder = Path("/proc", str(pid_of(pidfd)))
        try:
            # The proportional share: most pages are the zygote's too, and a plain sum would count those often.
            share = _SHARE.search((folder / "smaps_rollup").read_text("ascii"))
            return int(share[1]) * 1024 if share else 0
        except PermissionError:  # an ordinary user may be refused the parts
            return _without_files(folder)
    except OSError:  # it ended meanwhile
        return 0


def own_bytes(pidfd: int) -> int:
    """All that a process has in memory but mapped files, those pages too that it shares: more than it holds.

    The kernel has this number at hand, while for the share it walks all pages.
    """
    try:
        return _without_files(Path("/proc", str(pid_of(pidfd))))
    except OSError:  # it ended meanwhile
        return 0


def _without_files(folder: Path) -> int:
    _, resident, shared, *_ = (folder / "statm").read_text("ascii").split()
    return (int(resident) - int(shared)) * _PAGE_BYTES
