"""Bodies of brackets from nobody: a 33 MB one costs seconds to decode, and unfinished ones are held."""

from tests.hold.target import Target, again_and_again

ITEM = 1


async def attack(target: Target) -> None:
    body = b"[" + b"[]," * 11_000_000 + b"[]]"

    async def once(number: int) -> None:
        reader, writer = await target.connect()
        try:
            unfinished = number % 2
            writer.write(target.head("/exec", length=len(body) + unfinished))
            writer.write(body)
            await writer.drain()
            await reader.read()
        finally:
            writer.close()

    await again_and_again(20, once)
