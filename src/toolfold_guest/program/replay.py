"""Replay of a program: recorded wake-ups, clock reads and seeds; also its files, input and clock.

A program is a function of its text, its replies and a few reads of the world. The replies are in
the host's ledger. The reads are on this tape, which leaves with each frame of calls; a replay is
given the tape back and reads from it until it is used up, then goes on live.
"""

import _random
import datetime
import gc
import io
import os
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from toolfold_guest.stdlib_names import modules

MAX_ENTRIES = 10_000
"""In all. A program that reads the clock more often is not worth replaying, and says so."""

_UTC = datetime.UTC
_seed_in_c = _random.Random.seed
_usual_random: Any = random._inst  # whose methods are the module's functions
_TIME_FUNCTIONS = ("time", "monotonic", "perf_counter", "process_time", "time_ns", "monotonic_ns", "perf_counter_ns")


class GuestTape:
    """Recorded wake-ups and clock reads, in two lines because either is complete in itself."""

    def __init__(self, wakes: list[int], clocks: list[float]) -> None:
        self._old_wakes, self._old_clocks = deque(wakes), deque(clocks)
        self._new: tuple[list[int], list[Any]] = ([], [])
        self._entries = len(wakes) + len(clocks)

    @property
    def is_replaying(self) -> bool:
        """Wake-ups of the past are left: the guest must not wait for the present."""
        return bool(self._old_wakes)

    def peek_wake(self) -> int:
        return self._old_wakes[0]

    def next_wake(self) -> int:
        """How many replies came with this wake-up the first time; none means that a timer ran out."""
        return self._old_wakes.popleft()

    def woke(self, replies: int) -> None:
        self._note(0, replies)

    def clock(self, read: Callable[[], Any]) -> Any:
        """A clock's reading: of the past while there is one, else of now."""
        # Without asking which clock: the same program asks for the same ones in the same order.
        if self._old_clocks:
            return self._old_clocks.popleft()
        now = read()
        self._note(1, now)
        return now

    def spoil(self) -> None:
        self._entries = MAX_ENTRIES + 1

    def take(self) -> str:
        """What is new since the last take, as JSON; `0` when there was too much to keep."""
        if self._entries > MAX_ENTRIES:
            return "0"
        wakes, clocks = self._new
        self._new = ([], [])
        # Numbers only; `json.dumps` would dirty more pages.
        return f"[{wakes!r},{clocks!r}]"

    def _note(self, line: int, entry: Any) -> None:
        self._entries += 1
        if self._entries <= MAX_ENTRIES:
            self._new[line].append(entry)


class Source:
    """Where clocks are read that are not on a tape."""

    steady: Any = None
    """A clock that is not the system's, with a `read`."""


source = Source()
_current = GuestTape([], [])
_source = random.Random()  # noqa: S311  # repeatable is the point; the program guards nothing with it
# See `toolfold_guest.stdlib_names`.
_clocks = vars(time)
_seed_source, _randbytes = _source.seed, _source.randbytes
_TIME: dict[str, Callable[..., Any]] = {}
_TYPES: list[tuple[dict[str, Any], dict[str, Any], type]] = []
"""A type's dict, and what goes into it."""
_abstract: Any = vars(type)["__abstractmethods__"]
_set_abstract, _delete_abstract = _abstract.__set__, _abstract.__delete__


def install(tape: GuestTape, seed: int) -> None:
    """Route clocks and randomness of this guest through a tape and a seed."""
    global _current  # noqa: PLW0603  # a guest has one tape, and what reads it was made before the guest
    _current = tape
    _clocks.update(_TIME)
    for namespace, methods, kind in _TYPES:
        namespace.update(methods)
        # The interpreter has to hear of it. Setting this one tells it so and asks no type whether it may be changed.
        _set_abstract(kind, ())
        _delete_abstract(kind)
    _seed_entropy(seed)


def _recording_clock(read: Callable[[], Any]) -> Callable[[], Any]:
    is_steady, in_ns = not read.__name__.startswith("time"), read.__name__.endswith("_ns")
    last: Any = 0
    offset: Any = 0

    def clock() -> Any:
        nonlocal last, offset
        # Its readings need no tape: a replay comes to the same ones.
        if source.steady is not None:
            return source.steady.read(in_ns=in_ns)
        now = _current.clock(lambda: read() + offset)
        if is_steady and now < last:
            # After a replay on another machine: a steady clock goes on from where it stood.
            offset += last - now
            now = last
        last = now
        return now

    clock.__name__ = clock.__qualname__ = read.__name__
    return clock


def _with_default_time(function: Callable[..., Any]) -> Callable[..., Any]:
    def broken_down(seconds: float | None = None) -> Any:
        return function(time.time() if seconds is None else seconds)

    broken_down.__name__ = broken_down.__qualname__ = function.__name__
    return broken_down


_strftime = time.strftime


def _taped_strftime(format: str, *moment: Any) -> str:
    return _strftime(format, *(moment or (time.localtime(),)))


# Patched in the types themselves: a subclass of `datetime` makes pandas crash.


def _now(cls: Any, tz: Any = None) -> Any:
    return cls.fromtimestamp(time.time(), tz)


def _utcnow(cls: Any) -> Any:
    return cls.fromtimestamp(time.time(), _UTC).replace(tzinfo=None)


def _today(cls: Any) -> Any:
    return cls.fromtimestamp(time.time())


def prepare() -> None:
    """Make in the zygote what `install` puts in place: made in each guest, it would take a guest's memory."""
    for name in _TIME_FUNCTIONS:
        _TIME[name] = _recording_clock(getattr(time, name))
    # They read the clock themselves when given no time.
    for name in ("localtime", "gmtime", "ctime"):
        _TIME[name] = _with_default_time(getattr(time, name))
    _TIME["strftime"] = _taped_strftime
    _TYPES.append(_patch(datetime.datetime, {"now": classmethod(_now), "utcnow": classmethod(_utcnow)}))
    _TYPES.append(_patch(datetime.date, {"today": classmethod(_today)}))
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        _TYPES.append(_patch(pandas.Timestamp, {"now": classmethod(_now), "today": classmethod(_now)}))


def _patch(kind: type, methods: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], type]:
    return gc.get_referents(kind.__dict__)[0], methods, kind


def seed_random(seed: int | None) -> None:
    """As `random.seed` does for a number, without the detour through a method in Python."""
    _seed_in_c(_usual_random, seed)
    _usual_random.gauss_next = None


def _seed_entropy(seed: int) -> None:
    _seed_source(seed)
    vars(os)["urandom"] = _randbytes
    # Where `SystemRandom` and `secrets` get theirs.
    vars(random)["_urandom"] = _randbytes
    seed_random(seed)
    numpy = modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)
        _seed_numpy_generators(numpy)


def _seed_numpy_generators(numpy: Any) -> None:
    """`default_rng()` without a seed asks the system; here it asks the seeded source."""
    default_rng = numpy.random.default_rng

    def seeded_rng(seed: Any = None) -> Any:
        return default_rng(_source.getrandbits(128) if seed is None else seed)

    numpy.random.default_rng = seeded_rng


# ----------------------------------------------------------------------------------------------------
# What some programs are given: files, standard input, and a clock that tells a time of their own.
#
# Loaded in the zygote, so that a program that is given none of them pays for none.

_TICK_NS = 1_000
_sleep = time.sleep


class VirtualClock:
    """Tells a microsecond more at each reading, and jumps over sleeps: the same in every run."""

    def __init__(self, seconds: float) -> None:
        self._now_ns = round(seconds * 1e9)

    def read(self, *, in_ns: bool) -> float:
        self._now_ns += _TICK_NS
        return self._now_ns if in_ns else self._now_ns / 1e9

    def after(self, seconds: float) -> int:
        return self._now_ns + max(0, round(seconds * 1e9))

    def reach(self, moment: int) -> None:
        """A sleep has ended; others that overlapped it may have ended later."""
        self._now_ns = max(self._now_ns, moment)


def give(loop: Any, options: dict[str, Any]) -> None:
    """Set up what the options of a start name; the seed is set already, as is the tape if there is one."""
    if "clock" in options:
        if "tape" not in options:
            install(GuestTape([], []), options["seed"])
        clock = source.steady = VirtualClock(options["clock"])
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
    if source.steady is not None:
        source.steady = None
        vars(time)["sleep"] = _sleep
        del loop.call_later
    if _inputs:
        _inputs.clear()
        set_input(None)


_inputs: list[bytes] = []
_original_stdin: list[int] = []
"""A descriptor of what standard input was before."""


def _give_input(data: bytes) -> None:
    """As a file: all of it is there from the start, also for `open(0)` and for code in C."""
    _inputs.append(data)
    set_input(data)


def _set_input(data: bytes | None) -> None:
    """Put data in the place of standard input, or what was there before."""
    if data is None:
        os.dup2(_original_stdin[0], 0)
        open_stdin()
        return
    if not _original_stdin:
        _original_stdin.append(os.dup(0))
    name = os.path.join(os.environ.get("TMPDIR", "/tmp"), ".stdin")
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.unlink(name)
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)
    open_stdin()


set_input: Callable[[bytes | None], None] = _set_input
"""Another one where a descriptor cannot take another's place."""


def open_stdin() -> None:
    raw = io.FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")  # type: ignore[misc]  # read-only to mypy


def _sleeping(clock: VirtualClock) -> Callable[[float], None]:
    def sleep(seconds: float, /) -> None:
        end = clock.after(seconds)
        _sleep(seconds)
        clock.reach(end)

    return sleep


def _ringing(clock: VirtualClock, call_later: Callable[..., Any]) -> Callable[..., Any]:
    """`asyncio.sleep` and other timers, with the clock at their end when they ring."""

    def steady_call_later(delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        end = clock.after(delay)

        def ring() -> None:
            clock.reach(end)
            callback(*args)

        return call_later(delay, ring, context=context)

    return steady_call_later
