"""Requests whose bodies end in two ways, so that a proxy and the server see two different ones behind them."""

from tests.hold.target import HOSTILE, Target, again_and_again

ITEM = 12


async def attack(target: Target) -> None:
    async def once(_: int) -> None:
        reader, writer = await target.connect()
        try:
            writer.write(target.head("/exec", length=4, **HOSTILE, Transfer_Encoding="chunked"))
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            answer = await reader.readline()
            if answer.split()[1:2] != [b"400"] or b"not both" not in await reader.readuntil(b"}"):
                raise SystemExit(f"it was taken: {answer!r}")
        finally:
            writer.close()

    await again_and_again(4, once)
