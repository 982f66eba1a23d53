"""200 connections of one tenant that do a bit of everything: silence, slow bodies, unread answers, loops, brackets."""

import asyncio

from tests.hold.target import HOSTILE, Target, again_and_again

ITEM = 7
CONNECTIONS = 200


async def attack(target: Target) -> None:
    brackets = b'{"code": "1", "x": [' + b"[]," * 100_000 + b"[]]}"
    loop = b'{"code": "while True: pass", "timeout": 1000}'
    held = b'{"code": "x = bytearray(50_000_000)"}'
    bodies = [b"", brackets, loop, held, brackets[:1000]]

    async def once(number: int) -> None:
        reader, writer = await target.connect()
        body = bodies[number % len(bodies)]
        try:
            if number % 7:
                unfinished = number % 2
                writer.write(target.head("/exec", length=len(body) + unfinished, **HOSTILE))
                writer.write(body)
                await writer.drain()
            async with asyncio.timeout(15):
                await reader.read(1)
        except TimeoutError:
            pass
        finally:
            writer.close()

    await again_and_again(CONNECTIONS, once)
