"""Programs within programs: what one may still use of the time, the calls and the depth of its parents."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from toolfold.errors import ToolRefused
from toolfold.models import CallRecord, Limits, Value
from toolfold.tools.router import Handler, Request
from toolfold.tools.tool import Tool

MAX_DEPTH: Final = 4
"""Programs within each other, the outermost counted."""


@dataclass(slots=True)
class Whole:
    """An outermost program and all that it runs."""

    limits: Limits
    began: float = field(default_factory=time.perf_counter)
    calls: int = 0
    """Of every depth; a second attempt counts again."""

    def elapsed_seconds(self) -> float:
        """Since the outermost program was given."""
        return time.perf_counter() - self.began


# Any: what a program within a program gives is the door's own kind of result.
RunWithin: TypeAlias = "Callable[[str, Inside], Awaitable[Any]]"


@dataclass(frozen=True, slots=True)
class Inside:
    """One program; whoever serves its calls finds it with `current`."""

    whole: Whole
    run: RunWithin
    """Runs a further one."""
    depth: int = 1
    records: list[CallRecord] = field(default_factory=list)
    """Its calls and those of the programs it ran; times count from the start of the outermost."""
    begun: dict[int, float] = field(default_factory=dict)
    """When calls of its own that have no record yet began, by their id."""

    def began_of(self, record: CallRecord) -> float:
        """When the call of a new record began, on the clock of the outermost program.

        Not counted back from now: a busy machine may come to a record late, and then the calls of a
        program within this one would seem to begin before the call that ran it.
        """
        began = self.begun.pop(record.id, None)
        return self.whole.elapsed_seconds() - record.seconds if began is None else began

    def limits(self) -> Limits:
        """What is left for this program.

        Raises:
            ToolRefused: nothing, or there are too many around it.
        """
        limits = self.whole.limits
        if self.depth == 1:
            return limits
        if self.depth > MAX_DEPTH:
            raise ToolRefused(f"this would be program {self.depth} within another; {MAX_DEPTH} is the most")
        seconds = limits.wall_seconds - self.whole.elapsed_seconds()
        calls = limits.calls - self.whole.calls
        if seconds <= 0 or calls <= 0:
            raise ToolRefused(f"no {'time' if seconds <= 0 else 'calls'} left for a program within this program")
        return replace(limits, wall_seconds=seconds, calls=calls)


_current: ContextVar[Inside | None] = ContextVar("toolfold_orchestrator_inside", default=None)


def current() -> Inside | None:
    """The program whose call this code serves."""
    return _current.get()


@contextmanager
def entered(inside: Inside) -> Iterator[None]:
    """Tools that are called meanwhile, also in tasks that begin meanwhile, are called by this program."""
    token = _current.set(inside)
    try:
        yield
    finally:
        _current.reset(token)


def noting_begin(_: Tool, rest: Handler) -> Handler:
    """The router's outermost step: once for each call, whether it is then tried again, refused or not made at all."""

    def note(request: Request) -> Awaitable[Value]:
        inside = current()
        if inside is not None and request.call.id:  # a direct call has no record
            inside.begun[request.call.id] = inside.whole.elapsed_seconds()
        return rest(request)

    return note


def count_call(name: str) -> None:
    """Count one call of the program around here.

    Raises:
        ToolRefused: a program within a program has used up the calls of them all.
    """
    inside = current()
    if inside is None:
        return
    # The outermost program's own calls are counted by its engine, exactly.
    if inside.depth > 1 and inside.whole.calls >= inside.whole.limits.calls:
        raise ToolRefused(f"{name!r} was not called: {inside.whole.calls} calls is the limit of a program and its own")
    inside.whole.calls += 1


async def run_within(code: str) -> Any:
    """Run a program for the program around here."""
    parent = current()
    if parent is None:
        raise ToolRefused("a program is run by an executor's program or its call_tool only")
    child = Inside(parent.whole, parent.run, parent.depth + 1)
    try:
        return await parent.run(code, child)
    finally:
        parent.records.extend(child.records)
