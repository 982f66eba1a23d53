"""State of one program on Monty: its tools and calls, its errors, its clock and timers, its tape. Knows no thread.

A call has two ids: ours, which count from 1 and are in the record, and Monty's, which name the future that the
program holds. Sleeps, deadlines and the tickets of semaphores are futures, too, with an id of Monty's only.
"""

from __future__ import annotations

import datetime as dt
import heapq
import re
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolfold.engines.base import Ended, Order, ReplayTape
from toolfold.engines.monty.values import MontyState, Timer, for_guest
from toolfold.models import Call, Limits, Media, Problem, Reply, ToolSpec, Value
from toolfold.protocol.codec import tool_facts
from toolfold.tools.sendable_values import json_size
from toolfold_guest.shared.call_style import ASYNC_PREFIX, ToolFacts, bind, style_of
from toolfold_guest.shared.reserved_names import RESERVED


class MontyCalls:
    """Calls that wait for a reply, and results that wait for Monty."""

    def __init__(self, wrap: Callable[[Media], object], before: MontyState | None) -> None:
        self._wrap = wrap
        self.call_count = before.calls if before else 0
        """How many calls the program has made."""
        self.replies_seen = before.replies_seen if before else 0
        """How many replies it has had."""
        self.open = dict(before.open) if before else {}
        """Calls without a reply: our id to Monty's."""
        self._pending_replies = dict(before.pending_replies) if before else {}
        """Calls whose reply came before the snapshot and is still to be taken: our id to Monty's."""
        # Any: what Monty takes as a result is a dict of its own making.
        self._arrived: dict[int, Any] = {}
        """Results that Monty has not been given: its id to the result."""
        self._replied: dict[int, int] = {}
        """Of these, the ones that are replies: Monty's id to ours."""
        self._unsent: list[Call] = []
        """Calls leave when the program waits, as in the process engine; one never awaited never leaves."""
        for call_id, error in before.settled.items() if before else ():
            self.settle(call_id, error)

    def add(self, call: Call, call_id: int) -> None:
        """The program made a call; Monty knows it by `call_id`."""
        self.call_count = call.id
        self.open[call.id] = call_id
        self._unsent.append(call)

    def take_unsent(self) -> list[Call]:
        """Calls that are not on their way yet, and are now."""
        unsent, self._unsent = self._unsent, []
        return unsent

    def take(self, reply: Reply) -> bool:
        """Keep a reply for Monty; whether it is one that the program has not seen before."""
        call_id = self._pending_replies.pop(reply.call_id, None)
        is_new = call_id is None
        if call_id is None:
            call_id = self.open.pop(reply.call_id, None)
            if call_id is None:
                return False  # answered twice, never called, or taken before the snapshot
            self.replies_seen += 1
        if call_id in self._arrived:
            return is_new  # its deadline came first
        self._replied[call_id] = reply.call_id
        if reply.error is None:
            self._arrived[call_id] = {"return_value": for_guest(reply.value, self._wrap)}
        else:
            self._arrived[call_id] = {"exc_type": TOOL_ERROR, "message": reply.error}
        return is_new

    def settle(self, call_id: int, error: str = "") -> None:
        """A future of the host's own is done, with an exception or with nothing."""
        self._arrived.setdefault(call_id, {"exc_type": error} if error else {"return_value": None})

    def arrived(self, call_ids: Collection[int]) -> set[int]:
        return self._arrived.keys() & call_ids

    def give(self, call_id: int) -> Any:
        self._replied.pop(call_id, None)
        return self._arrived.pop(call_id)

    @property
    def pending_replies(self) -> dict[int, int]:
        """For a snapshot: calls whose replies are here but not taken. Our id to Monty's; the replies are on record."""
        return {ours: call_id for call_id, ours in self._replied.items()} | self._pending_replies

    @property
    def settled(self) -> dict[int, str]:
        """For a snapshot: what the host settled and Monty has not taken. Monty's id to the exception, if any."""
        return {
            call_id: result.get("exc_type", "")
            for call_id, result in self._arrived.items()
            if call_id not in self._replied
        }


# ----------------------------------------------------------------------------------------------------
# Tools as Monty knows them: by dotted name, each either awaitable or synchronous.


class OverLimitError(Exception):
    """The program went over a limit that the host counts."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Toolbox:
    """The tools of one program, and how its text calls them."""

    def __init__(self, order: Order) -> None:
        self._tools = tools_by_name(order.tools)
        self._limits: Limits = order.limits
        self.bare_names = frozenset(name for name in self._tools if "." not in name)
        """What programs call without a module."""
        self._calls_in_place = style_of(order.program.text, list(self.bare_names)) == "in_place"
        self._says_tools = "tools." in order.program.text
        self.in_place: Counter[str] = Counter()
        """Calls that were made where the program did not await them; the outcome has a hint for it."""

    def find(self, name: str) -> MontyTool | None:
        return self._tools.get(name)

    # Any: Monty's classes are known only once the optional package is there.
    def module(self, external_module: Callable[[dict[str, Any]], Any]) -> Any:
        """The module `tools`, with one module inside for each domain."""
        return _module("tools", modules_of(self._tools), external_module)

    def gives_future(self, tool: MontyTool, *, is_awaited: bool) -> bool:
        """Whether a call is awaited; else the program stands in it until its reply is there."""
        if is_awaited or (tool.is_awaitable and not self._calls_in_place):
            return True
        if not self._says_tools:
            self.in_place[tool.spec.name] += 1
        return False

    def call(self, tool: MontyTool, arguments: dict[str, Value], call_count: int) -> Call:
        """The next call of a program that has made `call_count` calls.

        Raises:
            ValueError: its arguments are too large.
            OverLimitError: it is one too many.
        """
        name, limits = tool.spec.name, self._limits
        size = json_size(arguments)
        if size > limits.value_bytes:
            raise ValueError(f"the arguments of {name!r} take {size} bytes; the limit is {limits.value_bytes}")
        if call_count >= limits.calls:
            raise OverLimitError(Problem(kind="calls", message=f"the program made more than {limits.calls} tool calls"))
        return Call(id=call_count + 1, tool=name, arguments=arguments)


@dataclass(frozen=True, slots=True)
class MontyTool:
    """One spelling of a tool."""

    spec: ToolSpec
    is_awaitable: bool

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Positional arguments and one positional dict as named ones, by the rule of every engine."""
        return dict(bind(ToolFacts(*tool_facts(self.spec)), args, kwargs)) if args else kwargs


def tools_by_name(specs: Sequence[ToolSpec]) -> dict[str, MontyTool]:
    """Every name under which a program can reach a tool: `price`, `tools.price`, `tools.hr.async_price`, ..."""
    tools: dict[str, MontyTool] = {}
    for spec in specs:
        if spec.domain and spec.short_name:
            tools.setdefault(f"tools.{spec.domain}.{spec.short_name}", MontyTool(spec, is_awaitable=False))
            tools.setdefault(f"tools.{spec.domain}.{ASYNC_PREFIX}{spec.short_name}", MontyTool(spec, is_awaitable=True))
        for name in (spec.python_name, *spec.aliases):
            if name not in RESERVED:
                tools[name] = MontyTool(spec, is_awaitable=True)
            for module in ("tools", f"tools.{spec.domain}") if spec.domain else ("tools",):
                tools[f"{module}.{name}"] = MontyTool(spec, is_awaitable=False)
                tools[f"{module}.{ASYNC_PREFIX}{name}"] = MontyTool(spec, is_awaitable=True)
    return tools


def modules_of(names: Mapping[str, MontyTool]) -> dict[str, set[str]]:
    """The names in each module: `{"tools": {...}, "tools.hr": {...}}`."""
    modules: dict[str, set[str]] = {"tools": set()}
    for dotted in names:
        module, _, name = dotted.rpartition(".")
        if module:
            modules.setdefault(module, set()).add(name)
    return modules


# Any: as in `Toolbox.module`.
def _module(path: str, modules: dict[str, set[str]], external_module: Callable[[dict[str, Any]], Any]) -> Any:
    attributes: dict[str, Any] = {name: stub(name) for name in modules[path]}
    for dotted in modules:
        outside, _, name = dotted.rpartition(".")
        if outside == path:
            attributes[name] = _module(dotted, modules, external_module)
    return external_module(attributes)


def stub(name: str) -> Callable[[], None]:
    """A host function as far as Monty is concerned; its name is what comes back in a call."""

    def tool() -> None:
        return None

    tool.__name__ = tool.__qualname__ = name
    return tool


# ----------------------------------------------------------------------------------------------------
# Monty's errors as outcomes: limits, refused syntax, and tracebacks in the house form.

TOOL_ERROR: Final = "_csv.Error"
"""Monty has no classes of exceptions but Python's own; this one no program raises by itself."""

_PROGRAM: Final = "<python-input-1>"  # the session's first input is the prelude
_UNSUPPORTED: Final = re.compile(r"The monty syntax parser does not yet support (.*)")


# Any: a `MontyRuntimeError` or `MontySyntaxError`, whose classes only `monty.py` may import.
def ended(error: Any, text: str, limits: Limits) -> Ended:
    exception, line = error.exception(), _line(error)
    message = str(exception)
    if isinstance(exception, MemoryError) and "memory limit" in message:
        words = f"the program used more than its {limits.memory_bytes >> 20} MiB of memory"
        return Ended(status="limit", problem=Problem(kind="memory", message=words, line=line, source=_at(text, line)))
    if isinstance(exception, TimeoutError) and message.startswith("feed time limit exceeded"):
        words = f"the program used its {limits.cpu_seconds} s of CPU time"
        return Ended(status="limit", problem=Problem(kind="cpu", message=words))
    if isinstance(exception, SystemExit):
        problem = Problem(kind="exception", message=_last_line(exception))
        return Ended(status="failed", problem=problem) if message not in ("", "0") else Ended(status="finished")
    refused = _refused(exception, message)
    if refused:
        return Ended(
            status="rejected", problem=Problem(kind="syntax", message=refused, line=line, source=_at(text, line))
        )
    problem = Problem(kind="exception", message=_last_line(exception), line=line, source=_at(text, line))
    return Ended(status="failed", problem=problem)


def error_text(error: Any, text: str) -> str:
    """The traceback as the process engine writes it: the program's own lines, no carets."""
    if isinstance(error.exception(), SystemExit):
        return _last_line(error.exception())
    frames = [
        traceback.FrameSummary("<program>", frame.line, _place(frame.function_name), line=_at(text, frame.line))
        for frame in error.traceback()
        if frame.filename == _PROGRAM
    ]
    stack = "".join(traceback.StackSummary.from_list(frames).format())
    return f"Traceback (most recent call last):\n{stack}{_last_line(error.exception())}"


def _place(function_name: str | None) -> str:
    return "__main__" if function_name in (None, "<module>") else str(function_name)


def _refused(exception: BaseException, message: str) -> str:
    unsupported = _UNSUPPORTED.fullmatch(message)
    if unsupported and isinstance(exception, NotImplementedError):
        return f"the monty engine cannot run {unsupported[1]}; write it without, or use the process engine"
    return f"SyntaxError: {message}" if isinstance(exception, SyntaxError) else ""


def _line(error: Any) -> int | None:
    lines = [frame.line for frame in error.traceback() if frame.filename == _PROGRAM]
    return lines[-1] if lines else None


def _last_line(exception: BaseException) -> str:
    text = "".join(traceback.format_exception_only(exception)).rstrip("\n")
    kind = type(exception)
    if f"{kind.__module__}.{kind.__name__}" == TOOL_ERROR:
        return "ToolError" + text.removeprefix(TOOL_ERROR)
    return text


def _at(text: str, line: int | None) -> str:
    lines = text.splitlines()
    return lines[line - 1].strip() if line is not None and line <= len(lines) else ""


# ----------------------------------------------------------------------------------------------------
# Clock, timers and replay tape of a program. Reads the clock, never waits.


CLOCKS: Final = frozenset({"time.time", "datetime.now", "date.today"})
"""Functions of the program's that tell the time."""


def time_for(function: str, zone: dt.tzinfo | None, seconds: float) -> float | dt.datetime | dt.date:
    """What one of the `CLOCKS` says at so many seconds since 1970; the program's own zone is UTC."""
    if function == "time.time":
        return seconds
    now = dt.datetime.fromtimestamp(seconds, dt.UTC)
    if function == "date.today":
        return now.date()
    return now.replace(tzinfo=None) if zone is None else now.astimezone(zone)


class MontyClock:
    """The program's time, which stands still while its execution is paused."""

    def __init__(self) -> None:
        self._lost_seconds = 0.0
        self._held_at: float | None = None

    def now(self) -> float:
        """Seconds since some moment, without the pauses."""
        at = self._held_at
        return (time.monotonic() if at is None else at) - self._lost_seconds

    def seconds_to(self, moment: float | None) -> float | None:
        """How long to wait for a moment; `None` for ever, as long as the clock stands still."""
        return None if moment is None or self._held_at is not None else max(0.0, moment - self.now())

    def hold(self) -> None:
        self._held_at = self._held_at or time.monotonic()

    def release(self, counted_seconds: float = 0.0) -> None:
        if self._held_at is not None:
            lost_seconds = time.monotonic() - self._held_at - counted_seconds
            self._lost_seconds, self._held_at = self._lost_seconds + lost_seconds, None


class Timers:
    """Sleeps and deadlines, by the program's clock."""

    def __init__(self, clock: MontyClock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, str]] = []
        """When, Monty's call id, and the exception that then settles it; none for a sleep."""

    @property
    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def set(self, seconds: float, call_id: int, error: str = "") -> None:
        heapq.heappush(self._heap, (self._clock.now() + max(0.0, seconds), call_id, error))

    def due(self) -> tuple[int, str] | None:
        """The call and the exception of one that has run out."""
        if not self._heap or self._heap[0][0] > self._clock.now():
            return None
        _, call_id, error = heapq.heappop(self._heap)
        return call_id, error

    def take(self, call_id: int) -> str:
        """The exception of the first one of a call, which runs out now whatever the clock says."""
        first = min((timer for timer in self._heap if timer[1] == call_id), default=None)
        if first is None:
            return ""
        self._heap.remove(first)
        heapq.heapify(self._heap)
        return first[2]

    def remaining(self) -> list[Timer]:
        now = self._clock.now()
        return [Timer(max(0.0, when - now), call_id, error) for when, call_id, error in self._heap]


# ----------------------------------------------------------------------------------------------------
# What makes a program on Monty repeatable: when it woke, what woke it, and what its clock said. Knows no thread.
#
# One wake is a few numbers: `n` for that many replies, `-2 - id` for a timer of Monty's call `id`, and -1 at its end.
# A pause in the middle of a wake divides it: what came before the pause is on record before it.

MAX_ENTRIES: Final = 100_000
"""A program that wants more is let go on, but cannot be replayed."""

_TICK_SECONDS: Final = 1e-6
_END: Final = -1
_FIRST_TIMER: Final = -2


class MontyTape:
    """Records, and plays what is on record first. Without a tape it does neither."""

    def __init__(self, tape: ReplayTape | None, steady: float | None = None) -> None:
        self.is_on = tape is not None
        self._steady = steady
        """A time of the program's own, which readings and sleeps advance; `None` where it is the real one."""
        old = tape or ReplayTape()
        self._old_wakes, self._old_clocks = deque(old.wakes), deque(old.clocks)
        self._entries = len(old.wakes) + len(old.clocks)
        self._is_muted = False
        self._new_wakes: list[int] = []
        self._new_clocks: list[float] = []
        self._is_spoilt = False

    @property
    def has_clock(self) -> bool:
        """Whether the program reads the time here."""
        return self.is_on or self._steady is not None

    @property
    def is_playing(self) -> bool:
        """Whether the next wake is on record."""
        return bool(self._old_wakes)

    @property
    def has_news(self) -> bool:
        return bool(self._new_wakes or self._new_clocks) and not self._is_spoilt

    def next_parts(self) -> Iterator[int]:
        """What the next wake on record is made of; nothing is recorded in between."""
        self._is_muted = True
        while self._old_wakes and self._old_wakes[0] != _END:
            yield self._old_wakes.popleft()
        # Without its end it is not over: the rest of it happens now.
        self._is_muted = bool(self._old_wakes)

    def replied(self) -> None:
        if self._is_muted or not self.is_on:
            return
        if self._new_wakes and self._new_wakes[-1] > 0:
            self._new_wakes[-1] += 1
        else:
            self._new_wakes.append(1)

    def timed(self, call_id: int) -> None:
        if not self._is_muted and self.is_on:
            self._new_wakes.append(_FIRST_TIMER - call_id)

    def woke(self) -> None:
        """The program goes on with all that has come."""
        if self._old_wakes:
            self._old_wakes.popleft()
        elif self.is_on:
            self._new_wakes.append(_END)
        self._is_muted = False

    def clock(self) -> float:
        """Seconds since 1970: now, or as they were then."""
        if self._steady is not None:
            self.slept(_TICK_SECONDS)
            return self._steady
        if self._old_clocks:
            return self._old_clocks.popleft()
        now = time.time()
        if len(self._new_clocks) <= MAX_ENTRIES:
            self._new_clocks.append(now)
        return now

    def slept(self, seconds: float) -> None:
        """The program's own time advances by a sleep."""
        if self._steady is not None:
            self._steady += max(0.0, seconds)

    def new(self) -> ReplayTape | None:
        """Tape entries that are not recorded yet; `None` if there are none."""
        if not self.is_on or self._is_spoilt or not self.has_news:
            return None
        self._entries += len(self._new_wakes) + len(self._new_clocks)
        self._is_spoilt = self._entries > MAX_ENTRIES
        tape = (
            ReplayTape(is_spoilt=True)
            if self._is_spoilt
            else ReplayTape(tuple(self._new_wakes), tuple(self._new_clocks))
        )
        self._new_wakes.clear()
        self._new_clocks.clear()
        return tape


def timer_of(part: int) -> int | None:
    """Monty's call id in a part of a wake; `None` where it is a number of replies."""
    return _FIRST_TIMER - part if part <= _FIRST_TIMER else None
