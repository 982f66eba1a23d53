"""More connections than the server has descriptors, and not a word on any of them."""

import asyncio

from tests.hold.target import Target, again_and_again

ITEM = 7


async def attack(target: Target) -> None:
    async def once(_: int) -> None:
        reader, writer = await target.connect()
        try:
            await reader.read()
        finally:
            writer.close()

    await asyncio.gather(again_and_again(1300, once))
