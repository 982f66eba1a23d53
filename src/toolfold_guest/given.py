"""What some programs are given: files, standard input, and a clock that tells a time of their own.

Loaded in the zygote, so that a program that is given none of them pays for none.
"""

import io
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from toolfold_guest import tape
from toolfold_guest.tape import Tape

_TICK_NS = 1_000
_sleep = time.sleep


class SteadyClock:
    """Tells a microsecond more at each reading, and jumps over sleeps: the same in every run."""

    def __init__(self, seconds: float) -> None:
        self._now_ns = round(seconds * 1e9)

    def read(self, *, in_ns: bool) -> float:
        """As `time.time`, or as `time.time_ns`."""
        self._now_ns += _TICK_NS
        return self._now_ns if in_ns else self._now_ns / 1e9

    def after(self, seconds: float) -> int:
        """The moment at which a sleep that begins now ends."""
        return self._now_ns + max(0, round(seconds * 1e9))

    def reach(self, moment: int) -> None:
        """A sleep has ended; others that overlapped it may have ended later."""
        self._now_ns = max(self._now_ns, moment)


def give(loop: Any, options: dict[str, Any]) -> None:
    """Set up what the options of a start name; the seed is set already, as is the tape if there is one."""
    if "clock" in options:
        if "tape" not in options:
            tape.install(Tape([], []), options["seed"])
        clock = tape.source.steady = SteadyClock(options["clock"])
        vars(time)["sleep"] = _sleeping(clock)
        loop.call_later = _ringing(clock, type(loop).call_later.__get__(loop))
    if "stdin" in options:
        _give_input(options["stdin"])


def place(name: str, data: bytes) -> None:
    """A file the caller gave, in the data folder, which is the working directory."""
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)


def take_back(loop: Any) -> None:
    """For the next program of a session, which may be given nothing."""
    if tape.source.steady is not None:
        tape.source.steady = None
        vars(time)["sleep"] = _sleep
        del loop.call_later
    if _kept:
        os.dup2(_kept[0], 0)
        sys.stdin = sys.__stdin__ = _opened()  # type: ignore[misc]  # read-only to mypy


_kept: list[int] = []
"""A descriptor of what standard input was before."""


def _give_input(data: bytes) -> None:
    """As a file: all of it is there from the start, also for `open(0)` and for code in C."""
    if not _kept:
        _kept.append(os.dup(0))
    name = os.path.join(os.environ.get("TMPDIR", "/tmp"), ".stdin")
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.unlink(name)
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)
    sys.stdin = sys.__stdin__ = _opened()  # type: ignore[misc]  # the same


def _opened() -> io.TextIOWrapper:
    raw = io.FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    return io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")


def _sleeping(clock: SteadyClock) -> Callable[[float], None]:
    def sleep(seconds: float, /) -> None:
        end = clock.after(seconds)
        _sleep(seconds)
        clock.reach(end)

    return sleep


def _ringing(clock: SteadyClock, call_later: Callable[..., Any]) -> Callable[..., Any]:
    """`asyncio.sleep` and other timers, with the clock at their end when they ring."""

    def steady_call_later(delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        end = clock.after(delay)

        def ring() -> None:
            clock.reach(end)
            callback(*args)

        return call_later(delay, ring, context=context)

    return steady_call_later
