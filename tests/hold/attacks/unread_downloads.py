"""Files of 60 MB, asked for many times at once and never read."""

import asyncio

from tests.hold.target import HOSTILE, Target, again_and_again

ITEM = 7


_paths: list[str] = []


async def prepare(target: Target) -> None:
    async with target.client() as client:
        answer = await client.post("/upload", files={"file": ("a.bin", b"x" * 60_000_000)})
        uploaded = answer.json()
    _paths.append(f"/download/{uploaded['session_id']}/{uploaded['files'][0]['fileId']}")


async def attack(target: Target) -> None:
    async def once(_: int) -> None:
        reader, writer = await target.connect()
        try:
            writer.write(target.head(_paths[0], method="GET", length=None, **HOSTILE))
            await reader.readexactly(1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(60)
        finally:
            writer.close()

    await again_and_again(40, once)
