"""A runtime that opens when it is first needed and closes with the event loop it was opened in.

An open async generator is what an event loop ends by itself, also at the end of `asyncio.run`: so
an executor that nobody closes leaves no guest behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from toolfold.runtime import Runtime


class Home:
    """One runtime in one event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = asyncio.Lock()
        self._held: AsyncGenerator[Runtime, None] | None = None
        self._guests = 0
        self._is_leaving = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Runtime]:
        """The runtime, which stays open at least as long as the context."""
        self._guests += 1
        try:
            async with self._lock:
                if self._held is None:
                    held = _hold(self._runtime)
                    await anext(held)
                    self._held = held
            yield self._runtime
        finally:
            self._guests -= 1
            if self._is_leaving and not self._guests:
                await self.close()

    async def leave(self) -> None:
        """Close once nobody uses it any more."""
        self._is_leaving = True
        if not self._guests:
            await self.close()

    async def close(self) -> None:
        """Close now; programs that still run are ended."""
        async with self._lock:
            held, self._held = self._held, None
            if held is not None:
                await held.aclose()


async def _hold(runtime: Runtime) -> AsyncGenerator[Runtime, None]:
    async with runtime:
        yield runtime
