"""400 connections of one tenant with nothing on them but requests that are refused, each as soon as the last one was."""

import asyncio
import contextlib

from tests.hold.target import HOSTILE, Target

ITEM = 7


async def attack(target: Target) -> None:
    request = target.head("/exec", length=2, **HOSTILE) + b"no"

    async def flood() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await target.connect()
                while True:
                    writer.write(request)
                    await reader.readuntil(b"}")

    await asyncio.gather(*(flood() for _ in range(400)))
