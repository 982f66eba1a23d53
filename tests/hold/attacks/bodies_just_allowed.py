"""Bodies with as many lists as are decoded, one after another."""

from tests.hold.target import HOSTILE, Target, again_and_again

ITEM = 1


async def attack(target: Target) -> None:
    body = b'{"code": "1", "x": [' + b"[]," * 490_000 + b"[]]}"

    async def once(_: int) -> None:
        reader, writer = await target.connect()
        try:
            writer.write(target.head("/exec", length=len(body), **HOSTILE, Connection="close"))
            writer.write(body)
            await writer.drain()
            await reader.read()
        finally:
            writer.close()

    await again_and_again(8, once)
