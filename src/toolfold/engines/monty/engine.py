"""Monty engine: a subset of Python, interpreted in Rust. The only file that imports `pydantic-monty`.

Rules:
1. One worker process per program, never used again, so that nothing of one program reaches the next.
2. One thread per program drives its worker. Monty's own asyncio client aborts the interpreter when
   that exits soon after it; the synchronous one does not, and takes less time per call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Literal, Self

from toolfold.engines.base import Capabilities, Died, Ended, EngineSettings, Event, Order, Waiting
from toolfold.engines.monty.driver import Driver, Freeze
from toolfold.engines.monty.values import FORMAT
from toolfold.errors import EngineUnavailable, UsageError, install_extra
from toolfold.models import Problem, Reply


class MontyEngine:
    """Runs anywhere, without an operating-system sandbox: Monty's interpreter itself is the wall."""

    name = "monty"
    isolation = "monty"
    notes: tuple[str, ...] = ("monty runs a subset of Python in a process that the operating system does not confine",)

    def __init__(self, *, max_programs: int = 64) -> None:
        self._slots = asyncio.Semaphore(max_programs)
        self._max_programs = max_programs
        self._monty: ModuleType | None = None
        self._pool: Any = None

    @classmethod
    def from_settings(cls, _: EngineSettings, /, *, max_programs: int = 64) -> Self:
        """For the registry; the limits come with each program, and no guest is kept."""
        return cls(max_programs=max_programs)

    async def __aenter__(self) -> Self:
        self._monty = _import_monty()
        # One more than the slots: a worker that was killed is replaced before its slot is free.
        pool = self._monty.Monty(
            min_processes=0, max_processes=self._max_programs + 1, max_checkouts_per_worker=1, checkout_timeout=30.0
        )
        self._pool = await asyncio.to_thread(pool.__enter__)
        return self

    async def __aexit__(self, *exc: object) -> None:
        pool, self._pool = self._pool, None
        await asyncio.to_thread(pool.__exit__, None, None, None)

    @property
    def capabilities(self) -> Capabilities:
        """Snapshots, and no modules beyond a part of the standard library."""
        version = "" if self._monty is None else f"monty {self._monty.__version__}/{FORMAT}"
        return Capabilities(snapshot_version=version, modules=frozenset(), has_saved_programs=False)

    @asynccontextmanager
    async def open(self, order: Order) -> AsyncIterator[MontyRun]:
        if self._pool is None or self._monty is None:
            raise UsageError("the engine is not entered; use `async with` on it first")
        if order.session:
            raise UsageError("the monty engine keeps no names between programs; use the process engine, or files only")
        if order.program.stdin is not None:
            raise UsageError("programs on the monty engine have no standard input; use the process engine, or a file")
        async with self._slots:
            run = MontyRun(self._monty, self._pool, order)
            try:
                yield run
            finally:
                run.stop("cancelled")
                await asyncio.shield(run.over.wait())

    def has_session(self, session: str) -> bool:
        return False

    def end_session(self, session: str) -> None:
        """There is none to end."""


class MontyRun:
    """One program on one worker: the event loop's side."""

    def __init__(self, monty: ModuleType, pool: Any, order: Order) -> None:
        self.over = asyncio.Event()
        """Set when the thread has let go of its worker."""
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._replies_seen = -1
        self._untaken = 0
        """Events on their way, but for those that only say that the program waits."""
        self._frozen: asyncio.Future[bytes | None] | None = None
        self._driver = Driver(monty, pool, order, self._post)
        threading.Thread(target=self._drive, name="toolfold-monty", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            event = await self._events.get()
            self._untaken -= not isinstance(event, Waiting)
            yield event
            if isinstance(event, Ended | Died):
                return

    def answer(self, reply: Reply) -> None:
        self._driver.waits.inbox.put(reply)

    def hold(self) -> None:
        self._driver.waits.clock.hold()
        self._driver.waits.inbox.put("look")

    def release(self) -> None:
        self._driver.waits.clock.release()
        self._driver.waits.inbox.put("look")

    def release_after(self, seconds: float) -> None:
        """Let the program's clock go on from where it would be, had so much time passed."""
        self._driver.waits.clock.release(seconds)
        self._driver.waits.inbox.put("due")

    def nudge(self, event: Waiting) -> None:
        if not self.over.is_set():
            self._events.put_nowait(event)

    async def freeze(self) -> bytes | None:
        """The paused program as bytes, so that another worker, also in another process, can go on with it."""
        if self.over.is_set():
            return None
        self._frozen = self._loop.create_future()
        self._driver.waits.inbox.put(Freeze(lambda body: self._tell_loop(self._answer_freeze, body)))
        body = await self._frozen
        # What came before the answer and nobody has taken yet is in the program's state, and in no record.
        if body is not None and self._untaken:
            # It stands still: asked again, it says the same.
            self._events.put_nowait(Waiting(self._replies_seen))
            return None
        return body

    def _answer_freeze(self, body: bytes | None) -> None:
        if self._frozen is not None and not self._frozen.done():
            self._frozen.set_result(body)

    def stop(self, status: Literal["timeout", "cancelled", "limit"], problem: Problem | None = None) -> None:
        self._driver.stop(Ended(status=status, problem=problem))

    def _drive(self) -> None:
        try:
            self._post(self._driver.run())
        finally:
            self._tell_loop(self._end)

    def _end(self) -> None:
        self.over.set()
        self._answer_freeze(None)

    def _post(self, event: Event) -> None:
        self._tell_loop(self._take_in, event)

    def _take_in(self, event: Event) -> None:
        if isinstance(event, Waiting):
            self._replies_seen = event.replies_seen
        else:
            self._untaken += 1
        self._events.put_nowait(event)

    def _tell_loop(self, *callback: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(*callback)
        except RuntimeError:
            return  # the loop was closed under a run that nobody left


def _import_monty() -> ModuleType:
    try:
        import pydantic_monty  # noqa: PLC0415  # an optional extra
    except ImportError as error:
        raise EngineUnavailable(f"the monty engine is not installed; {install_extra('monty')}") from error
    return pydantic_monty
