"""Raw `pydantic-monty`, through its asyncio client: a pool of workers, one session for each program."""

import io
from typing import Self

import pydantic_monty

from bench.peers.adapters.base import Adapter, Ran

# Monty's own limit of host calls is 1,000, and a name that is looked up counts as one.
LIMITS = {"max_suspensions": 100_000, "max_feed_duration_secs": 10.0}


class Monty(Adapter):
    async def __aenter__(self) -> Self:
        self._pool = pydantic_monty.AsyncMonty(min_processes=4, max_processes=8)
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._pool.__aexit__(*exc)

    async def run(self, text: str) -> Ran:
        out = io.StringIO()
        mount = pydantic_monty.MountDir(virtual_path="/", host_path=".") if self.with_files else None
        async with self._pool.checkout(limits=LIMITS) as session:
            value = await session.feed_run(
                text, external_lookup=self.tools, mount=mount, print_callback=lambda _, printed: out.write(printed)
            )
        return Ran(value, out.getvalue())
