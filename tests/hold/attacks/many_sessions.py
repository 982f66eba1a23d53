"""Uploads into one new session after another."""

from tests.hold.target import Target, again_and_again

ITEM = 8
CONTROL = None


async def attack(target: Target) -> None:
    async with target.client() as client:

        async def once(_: int) -> None:
            await client.post("/upload", files={"file": ("a.bin", b"x" * 1_000_000)})

        await again_and_again(20, once)
