"""A zygote that is not wanted any more before it is there."""

import asyncio
import os

from tests.escapes_support.seen import descendants
from toolfold.engines.process.engine import ProcessEngine


async def test_a_cancelled_start_leaves_no_process_and_no_zombie() -> None:
    before = descendants(os.getpid())
    for turns in (1, 2, 5, 20):
        starting = asyncio.create_task(ProcessEngine().__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])

    async with asyncio.timeout(60):
        while descendants(os.getpid()) - before:
            await asyncio.sleep(0.02)
