"""Files of 60 MB, asked for many times at once and never read."""

import asyncio

from tests.hold.target import HOSTILE, Target, again_and_again

ITEM = 7
CONTROL = None


async def attack(target: Target) -> None:
    async with target.client() as client:
        answer = await client.post("/upload", files={"file": ("a.bin", b"x" * 60_000_000)})
        uploaded = answer.json()
    path = f"/download/{uploaded['session_id']}/{uploaded['files'][0]['fileId']}"

    async def once(_: int) -> None:
        reader, writer = await target.connect()
        try:
            writer.write(target.head(path, method="GET", **HOSTILE))
            await reader.readexactly(1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(60)
        finally:
            writer.close()

    await again_and_again(40, once)
