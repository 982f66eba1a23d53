"""Batches of programs, outcomes as they come: `Runtime.map`. Knows nothing of where programs run.

Rules:
1. An item is taken from its source only when there is room for it, and room is made when its outcome is taken:
   what is in memory is what is in flight.
2. A program's failure is an outcome. A failure of the engine is tried again where no call can be made twice by it,
   and raised as what it is when that does not help.
3. Whoever stops reading ends everything that still runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from toolfold.errors import EngineCrashed, EngineError, EngineUnavailable, UsageError
from toolfold.models import Outcome, ProgramOptions, ToolSpec

TRIES: Final = 4
_FIRST_PAUSE_SECONDS: Final = 0.1


class Item(ProgramOptions, frozen=True, kw_only=True):
    """A program of a batch, with what differs from the others."""

    text: str
    # Any: whatever the caller finds it again by.
    tag: Any = None
    """Comes back with the outcome."""
    tools: Collection[str] | None = None
    """Names of the runtime's tools that this program may call; `None`: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Finished item of a batch."""

    index: int
    """Its place in the batch, counted from 0."""
    item: Item
    outcome: Outcome

    # Any: as in the item.
    @property
    def tag(self) -> Any:
        """The item's."""
        return self.item.tag


Programs: TypeAlias = "Iterable[str | Item] | AsyncIterable[str | Item]"


class Mappable(Protocol):
    """The part of `Runtime` that this uses."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...
    async def run(self, text: str, *, options: ProgramOptions) -> Outcome: ...


async def map_programs(runtime: Mappable, programs: Programs, *, in_flight: int) -> AsyncGenerator[Mapped, None]:
    """Outcomes in the order in which the programs end."""
    if in_flight < 1:
        raise UsageError(f"in_flight is {in_flight!r}; at least 1 program must be in flight")
    flight = _BatchRun(runtime, in_flight)
    feeding = asyncio.create_task(flight.feed(_read_items(programs)))
    try:
        while (result := await flight.next_result()) is not None:
            yield result
    finally:
        await flight.end(feeding)


class _BatchRun:
    """The programs that are under way."""

    def __init__(self, runtime: Mappable, in_flight: int) -> None:
        self._runtime = runtime
        self._room = asyncio.Semaphore(in_flight)
        self._done: asyncio.Queue[Mapped | BaseException | None] = asyncio.Queue()
        self._running: set[asyncio.Task[None]] = set()

    async def feed(self, items: AsyncIterator[Item]) -> None:
        """Start one after the other, each when there is room; the last word is that there are no more."""
        try:
            index = 0
            while True:
                await self._room.acquire()
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    break
                task = asyncio.create_task(self._run(index, item))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
                index += 1
            while self._running:
                await asyncio.wait(self._running)
            self._done.put_nowait(None)
        # The source is the caller's: whatever it raises is raised to whoever reads.
        except Exception as error:  # noqa: BLE001
            self._done.put_nowait(error)
        finally:
            if (close := getattr(items, "aclose", None)) is not None:
                await close()

    async def next_result(self) -> Mapped | None:
        """The next outcome; `None` after the last."""
        result = await self._done.get()
        if isinstance(result, BaseException):
            raise result
        if result is not None:
            self._room.release()
        return result

    async def end(self, feeding: asyncio.Task[None]) -> None:
        """Cancel what still runs, and wait until nothing of it is left."""
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, index: int, item: Item) -> None:
        try:
            outcome = await self._outcome(item)
        # Nobody awaits this task: its reader is told instead.
        except Exception as error:  # noqa: BLE001
            self._done.put_nowait(error)
        else:
            self._done.put_nowait(Mapped(index=index, item=item, outcome=outcome))

    async def _outcome(self, item: Item) -> Outcome:
        options: ProgramOptions = item
        if item.tools is not None:
            hidden = _hidden_names(item.tools, self._runtime.tools)
            options = msgspec.structs.replace(item, hidden=(*item.hidden, *hidden))
        for attempt in range(TRIES):
            try:
                return await self._runtime.run(item.text, options=options)
            except EngineError as error:
                if attempt == TRIES - 1 or not self._may_try_again(error, item):
                    raise
                await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _may_try_again(self, error: EngineError, item: Item) -> bool:
        """Whether nothing can happen twice: no call was made, or only such as are safe to repeat."""
        # A session's earlier names are gone with its guest: the program would find others than it was written for.
        if isinstance(error, EngineUnavailable):
            return True
        # Its id is on record.
        if not isinstance(error, EngineCrashed) or item.keep_names or item.execution_id:
            return False
        safe = {spec.name for spec in self._runtime.tools if spec.read_only or spec.idempotent}
        return safe.issuperset(error.started)


def _hidden_names(names: Collection[str], tools: Sequence[ToolSpec]) -> list[str]:
    tool_names = {spec.name for spec in tools}
    if missing := sorted(set(names) - tool_names):
        raise UsageError(
            f"no tool {missing[0]!r} for a program of the batch; there are {', '.join(sorted(tool_names))}"
        )
    return sorted(tool_names.difference(names))


async def _read_items(programs: Programs) -> AsyncIterator[Item]:
    if isinstance(programs, AsyncIterable):
        async for program in programs:
            yield _item(program)
    else:
        for program in programs:
            yield _item(program)


def _item(program: str | Item) -> Item:
    if isinstance(program, str):
        return Item(text=program)
    if not isinstance(program, Item):
        raise UsageError(f"a batch consists of texts and `Item`s; this is a {type(program).__name__!r}")
    return program
