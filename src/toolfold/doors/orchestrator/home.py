"""A runtime that opens when it is first needed and closes with the event loop it was opened in.

An open async generator is what an event loop ends by itself, also at the end of `asyncio.run`: so
an executor that nobody closes leaves no guest behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from toolfold.runtime import Runtime


class Home:
    """One runtime in one event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = asyncio.Lock()
        self._held: AsyncGenerator[None, None] | None = None

    async def open(self) -> Runtime:
        """The runtime, open."""
        async with self._lock:
            if self._held is None:
                held = _hold(self._runtime)
                await anext(held)
                self._held = held
        return self._runtime

    async def close(self) -> None:
        """End every guest; programs that still run end with them."""
        async with self._lock:
            held, self._held = self._held, None
            if held is not None:
                await held.aclose()


async def _hold(runtime: Runtime) -> AsyncGenerator[None, None]:
    async with runtime:
        yield
