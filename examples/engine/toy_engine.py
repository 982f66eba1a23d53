"""An engine from outside of toolfold: jailed CPython, but only so many programs at the same time; others wait.

It wraps the process engine, as most engines will wrap something that runs programs: a container, a remote
machine, another interpreter. Installed, it is `engine: toy`, `--engine toy` or `Runtime(engine="toy")`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolfold.engines import Engine, EngineSettings, EngineWrapper, Order, Run, engine_named


class ToyEngine(EngineWrapper):
    """Runs programs on another engine, `at_once` of them at the same time."""

    def __init__(self, inner: Engine, *, at_once: int = 8) -> None:
        super().__init__(inner)
        self._slots = asyncio.Semaphore(at_once)
        self._at_once = at_once

    @classmethod
    def from_settings(cls, settings: EngineSettings, /, *, at_once: int = 8, isolation: str = "namespace") -> ToyEngine:
        """What the entry point names; the keywords are the engine's options, `engine_options={"at_once": 2}`."""
        inner = engine_named("process", options={"isolation": isolation}, settings=settings)
        return cls(inner, at_once=at_once)

    @property
    def name(self) -> str:
        """In every outcome, and what a paused execution needs to be resumed."""
        return "toy"

    @property
    def notes(self) -> tuple[str, ...]:
        """Goes into the hints of every outcome."""
        return (*self.inner.notes, f"at most {self._at_once} programs run at the same time")

    @asynccontextmanager
    async def open(self, order: Order) -> AsyncIterator[Run]:
        """Wait for a slot, then start the program; leaving frees both, whatever the program did."""
        async with self._slots, self.inner.open(order) as run:
            yield run
