"""One life of a program: its run, its open calls, its output so far, its clock."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from toolfold.errors import UsageError
from toolfold.models import CallRecord, ContextSaved, Outcome, Paused, Problem, Reply
from toolfold.tools.shape import json_size

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from toolfold.engines.base import Ended, Engine, Order, Printed, Run
    from toolfold.models import Call, ToolSpec
    from toolfold.tools.router import Router


class Execution:
    """What the runtime holds of a program between its start and its outcome."""

    def __init__(
        self, id: str, order: Order, engine: Engine, router: Router, outside: Sequence[ToolSpec],
        on_call: Callable[[CallRecord], None] | None,
    ) -> None:  # fmt: skip
        self.id = id
        self.run: Run
        self.is_paused = False
        self._order = order
        self._engine = engine
        self._router = router
        self._outside = frozenset(spec.name for spec in outside)
        self._on_call = on_call
        self._stack = AsyncExitStack()
        self._output = {"stdout": Output(order.limits.output_bytes), "stderr": Output(order.limits.output_bytes)}
        self._records: list[CallRecord] = []
        self._open: dict[int, tuple[Call, float]] = {}
        self._in_flight: set[asyncio.Task[None]] = set()
        self._queued: deque[Call] = deque()
        self._replies_sent = 0
        self._began = time.perf_counter()
        self._left_seconds = order.limits.wall_seconds

    async def open(self) -> None:
        """Give the program to the engine."""
        self.run = await self._stack.enter_async_context(self._engine.open(self._order))

    async def close(self) -> None:
        """End the guest and every call that the program did not wait for."""
        for task in self._in_flight:
            task.cancel()
        await self._stack.aclose()

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Counts towards the wall clock while it is entered: paused time does not."""
        began = time.perf_counter()
        timer = asyncio.get_running_loop().call_later(self._left_seconds, self._time_out)
        try:
            yield
        finally:
            timer.cancel()
            self._left_seconds -= time.perf_counter() - began

    def _time_out(self) -> None:
        seconds = f"{self._order.limits.wall_seconds:g}"
        self.run.stop("timeout", Problem(kind="wall_clock", message=f"the program took longer than {seconds} s"))

    def keep(self, printed: Printed) -> None:
        """Output of the program, up to the cap; the rest is counted."""
        self._output[printed.stream].add(printed.text, printed.cut_bytes)

    @property
    def started(self) -> tuple[str, ...]:
        """Tools that were called, for an error after which a retry may not be safe."""
        return (*(record.name for record in self._records), *(call.tool for call, _ in self._open.values()))

    # calls

    def serve(self, call: Call) -> None:
        """Send a call on its way: to the router at once, or to the outside with the next pause."""
        self._open[call.id] = (call, time.perf_counter())
        if call.tool in self._outside:
            return
        if len(self._in_flight) < self._order.limits.calls_in_flight:
            self._dispatch(call)
        else:
            self._queued.append(call)

    def _dispatch(self, call: Call) -> None:
        task = _start(self._serve(call))
        if not task.done():
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    async def _serve(self, call: Call) -> None:
        reply = await self._router.serve(call, max_reply_bytes=self._order.limits.reply_bytes)
        self._answer(call, reply)
        if self._queued:
            self._dispatch(self._queued.popleft())

    def _answer(self, call: Call, reply: Reply) -> None:
        began = self._open.pop(call.id)[1]
        ended = time.perf_counter()
        self._replies_sent += 1
        self.run.answer(reply)  # first the answer: the guest goes on while we do the accounts
        record = CallRecord(
            id=call.id,
            name=call.tool,
            arguments=call.arguments,
            started_seconds=began - self._began,
            seconds=ended - began,
            error=reply.error,
            bytes_in=json_size(call.arguments),
            bytes_out=_size(reply),
        )
        self._records.append(record)
        if self._on_call is not None:
            self._on_call(record)

    # pauses

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """Calls that only the outside can answer, in the order in which they were made."""
        return tuple(call for call, _ in self._open.values() if call.tool in self._outside)

    def waits_for_the_outside(self, replies_seen: int) -> bool:
        """The guest has seen every reply and has nothing to run, and no local call is on its way."""
        return replies_seen == self._replies_sent and not self._in_flight and bool(self.open_calls)

    def pause(self) -> Paused:
        """Stand still until the outside answers."""
        if not self.is_paused:
            self.is_paused = True
            self.run.hold()
        return Paused(execution_id=self.id, calls=self.open_calls)

    def accept(self, replies: Sequence[Reply]) -> None:
        """Hand over replies of the outside; all of them are checked before one is used."""
        if not self.is_paused:
            raise UsageError(f"execution {self.id!r} is running; wait for it to pause")
        open_calls = {call.id: call for call in self.open_calls}
        seen: set[int] = set()
        for reply in replies:
            if reply.call_id not in open_calls or reply.call_id in seen:
                ids = ", ".join(str(call_id) for call_id in open_calls)
                raise UsageError(f"no open call {reply.call_id!r} in execution {self.id!r}; open are {ids}")
            seen.add(reply.call_id)
        self.is_paused = False
        self.run.release()
        for reply in replies:
            self._answer(open_calls[reply.call_id], reply)

    # the end

    def outcome(self, ended: Ended) -> Outcome:
        """What became of it all."""
        stdout, stderr = self._output["stdout"], self._output["stderr"]
        records = tuple(sorted((*self._records, *self._unanswered()), key=lambda record: record.id))
        hints = (*self._engine.notes, *ended.notes)
        if len(records) == 1 and ended.status == "finished":
            hints += (f"one call only: a direct call of {records[0].name!r} would do",)
        return Outcome(
            execution_id=self.id,
            status=ended.status,
            value=ended.value,
            stdout=stdout.text(),
            stderr=stderr.text(),
            stdout_cut_bytes=stdout.cut_bytes,
            stderr_cut_bytes=stderr.cut_bytes,
            problem=ended.problem,
            calls=records,
            files=ended.files,
            engine=self._engine.name,
            isolation=self._engine.isolation,
            seconds=time.perf_counter() - self._began,
            context_saved=self._saved(records, ended, stdout, stderr),
            hints=hints,
        )

    def _unanswered(self) -> Iterator[CallRecord]:
        """Calls that the program did not wait for: they may have run."""
        now = time.perf_counter()
        for call, began in self._open.values():
            yield CallRecord(
                id=call.id,
                name=call.tool,
                arguments=call.arguments,
                started_seconds=began - self._began,
                seconds=now - began,
                error="the program ended before the reply",
                bytes_in=json_size(call.arguments),
            )

    def _saved(self, records: Sequence[CallRecord], ended: Ended, *streams: Output) -> ContextSaved:
        stayed_out = sum(record.bytes_in + record.bytes_out for record in records)
        went_in = len(self._order.program.text.encode()) + sum(stream.kept_bytes for stream in streams)
        went_in += json_size(ended.value) if ended.value is not None else 0
        saved = max(0, stayed_out - went_in)
        return ContextSaved(tokens=saved // 4, bytes=saved)


def _size(reply: Reply) -> int:
    if reply.size_bytes is not None:
        return reply.size_bytes
    return json_size(reply.value if reply.error is None else reply.error)


class Output:
    """One stream, kept up to a cap and cut on a character boundary."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._parts: list[str] = []
        self.kept_bytes = 0
        self.cut_bytes = 0

    def add(self, text: str, cut_bytes: int) -> None:
        """Keep what fits; `cut_bytes` were dropped before it came here."""
        self.cut_bytes += cut_bytes
        size = len(text) if text.isascii() else len(text.encode())
        room = self._cap_bytes - self.kept_bytes
        if size > room:
            text = text.encode()[:room].decode(errors="ignore")
            kept = len(text.encode())
            self.cut_bytes += size - kept
            self._cap_bytes = self.kept_bytes + kept  # later, shorter text must not slip in behind the cut
            size = kept
        self.kept_bytes += size
        self._parts.append(text)

    def text(self) -> str:
        """All that was kept."""
        return "".join(self._parts)


if sys.version_info >= (3, 12):

    def _start(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that runs at once, up to its first wait: most tools then need no loop turn at all."""
        return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), eager_start=True)

else:

    def _start(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(coroutine)
