"""What guests hold, as the kernel counts it. Asked for by whoever measures, never while a program runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final

from toolfold.engines.process.pidfd import pid_of

_SHARE: Final = re.compile(r"^Pss:\s*(\d+) kB$", re.MULTILINE)
_OOM_KILLS: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_STATM_BYTES: Final = 256
"""Seven numbers."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def held_bytes(pidfds: Iterable[int]) -> int:
    """Memory of these processes; of pages that several share each has its part."""
    return sum(map(_held, pidfds))


def _held(pidfd: int) -> int:
    try:
        pid = pid_of(pidfd)
        try:
            # The proportional share: most pages are the zygote's too, and a plain sum would count those often.
            share = _SHARE.search(Path(f"/proc/{pid}/smaps_rollup").read_text("ascii"))
            return int(share[1]) * 1024 if share else 0
        except PermissionError:  # an ordinary user may be refused the parts
            return _without_files(Path(f"/proc/{pid}/statm").read_bytes())
    except OSError:  # it ended meanwhile
        return 0


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory, in whichever group; 0 where it does not tell."""
    try:
        count = _OOM_KILLS.search(Path("/proc/vmstat").read_text("ascii"))
    except OSError:
        return 0
    return int(count[1]) if count else 0


class Gauge:
    """What one process has in memory, asked often.

    All but mapped files, those pages too that it shares: more than it holds. The kernel has this number at hand, while
    for the share it walks all pages.
    """

    _free: ClassVar[int] = 64
    """Of files that may stay open: to open and close one hands the interpreter to other threads twice more."""

    def __init__(self) -> None:
        self._fd = -1

    def read(self, pidfd: int) -> int:
        """In bytes; none if it has ended."""
        try:
            fd = self._fd if self._fd >= 0 else os.open(f"/proc/{pid_of(pidfd)}/statm", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return _without_files(os.pread(fd, _STATM_BYTES, 0))
            finally:
                self._keep_or_close(fd)
        except OSError:  # it ended meanwhile
            return 0

    def close(self) -> None:
        """Harmless when repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            Gauge._free += 1

    def disown(self) -> int:
        """In a forked child: the descriptor to let go of, or -1."""
        fd, self._fd = self._fd, -1
        return fd

    def _keep_or_close(self, fd: int) -> None:
        if self._fd >= 0:
            return
        if Gauge._free > 0:
            Gauge._free -= 1
            self._fd = fd
        else:
            os.close(fd)


def _without_files(statm: bytes) -> int:
    _, resident, shared, *_ = statm.split()
    return (int(resident) - int(shared)) * _PAGE_BYTES
