"""`toolfold` with a wall clock that can be shifted, and with a planted bug: `python -m tests.faults.launcher serve ...`.

`TOOLFOLD_TEST_CLOCK` names a file with eight bytes, the seconds by which the wall clock of the process is off; whoever
writes there makes it jump. `TOOLFOLD_TEST_BUG` names one of `planted.BUGS`.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from pathlib import Path
from typing import Final

_CLOCK: Final = "TOOLFOLD_TEST_CLOCK"
_BUG: Final = "TOOLFOLD_TEST_BUG"
_SECONDS: Final = struct.Struct("=d")
COMMAND: Final = (sys.executable, "-m", "tests.faults.launcher")
_ROOT: Final = Path(__file__).parents[2]


class WallClock:
    """By how much the wall clock of some processes is off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set(0.0)

    def set(self, seconds: float) -> None:
        if not self.path.exists():
            self.path.write_bytes(_SECONDS.pack(seconds))
        with self.path.open("r+b") as file:  # in place: others have it mapped
            file.write(_SECONDS.pack(seconds))


def environment(clock: Path | None = None, bug: str = "", **more: str) -> dict[str, str]:
    """Of a process that is started with `COMMAND`."""
    path = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
    return {**os.environ, "PYTHONPATH": path, _CLOCK: str(clock or ""), _BUG: bug, **more}


def shift_clock(path: str) -> None:
    """Before anything else is imported, so that all of it has the same clock."""
    with open(path, "rb") as file:
        shared = mmap.mmap(file.fileno(), _SECONDS.size, prot=mmap.PROT_READ)
    real, real_ns = time.time, time.time_ns

    def seconds() -> float:
        return float(_SECONDS.unpack_from(shared)[0])

    time.time = lambda: real() + seconds()
    time.time_ns = lambda: real_ns() + int(seconds() * 1e9)


def main() -> None:
    if path := os.environ.get(_CLOCK):
        shift_clock(path)
    # Imported here: behind the clock.
    from toolfold.interfaces.cli import main as toolfold

    if bug := os.environ.get(_BUG):
        from tests.faults.planted import plant

        plant(bug)
    sys.argv[0] = "toolfold"
    toolfold()


if __name__ == "__main__":
    main()
