"""The same from a tenant."""

from tests.hold.target import HOSTILE, Target, again_and_again

ITEM = 1


async def attack(target: Target) -> None:
    body = b'{"code": "1", "x": [' + b"[]," * 11_000_000 + b"[]]}"

    async def once(number: int) -> None:
        reader, writer = await target.connect()
        try:
            unfinished = number % 2
            writer.write(target.head("/exec", length=len(body) + unfinished, **HOSTILE))
            writer.write(body)
            await writer.drain()
            await reader.read()
        finally:
            writer.close()

    await again_and_again(20, once)
