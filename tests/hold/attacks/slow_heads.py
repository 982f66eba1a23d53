"""Heads that come a line at a time, and never whole."""

import asyncio

from tests.hold.target import Target, again_and_again

ITEM = 7


async def attack(target: Target) -> None:
    async def once(_: int) -> None:
        reader, writer = await target.connect()
        try:
            writer.write(b"POST /exec HTTP/1.1\r\nHost: a\r\n")
            while not reader.at_eof():
                writer.write(b"X-More: 1\r\n")
                await writer.drain()
                await asyncio.sleep(0.5)
        finally:
            writer.close()

    await again_and_again(1100, once)
