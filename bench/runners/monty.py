"""Raw `pydantic-monty`, through its asyncio client: a pool of workers, one session per program."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

from bench.runners.base import Runner
from bench.tools import TOOLS

# Monty's own limit of host calls is 1,000, and a name that is looked up counts as one.
LIMITS: Any = {"max_suspensions": 100_000}


class Monty(Runner):
    name = "monty"

    async def __aenter__(self) -> Self:
        # Here, not at the top: an optional extra; without it the other runners still run.
        import pydantic_monty  # noqa: PLC0415

        self._pool = pydantic_monty.AsyncMonty(min_processes=2, max_processes=110)
        await self._pool.__aenter__()
        self._tools = {tool.__name__: tool for tool in TOOLS}
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._pool.__aexit__(*exc)

    async def run(self, text: str) -> Any:
        async with self._pool.checkout(limits=LIMITS) as session:
            return await session.feed_run(text, external_lookup=self._tools)

    @asynccontextmanager
    async def paused(self, text: str, count: int) -> AsyncIterator[list[int]]:
        async with AsyncExitStack() as stack:
            pids: list[Any] = []
            for _ in range(count):
                session = await stack.enter_async_context(self._pool.checkout(limits=LIMITS))
                # Any: whatever Monty stops at; another step than a call fails in the next line, and says so.
                step: Any = await session.feed_start(text, external_lookup={})
                while step.function_name != "ask":  # an import: raises where Monty has no such module
                    step = await step.resume_not_handled()
                pids.append(session.worker_pid)
            yield pids
