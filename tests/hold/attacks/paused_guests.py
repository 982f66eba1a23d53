"""Programs that hold all the memory they may, and wait for a client that never answers."""

from tests.hold.target import Target, again_and_again

ITEM = 6
COUNTS_GUESTS = True


async def attack(target: Target) -> None:
    code = "held = b'x' * 150_000_000\nawait wait_here()"
    async with target.client() as client:

        async def once(_: int) -> None:
            body = {"code": code, "tools": [{"name": "wait_here"}], "timeout": 300_000}
            await client.post("/exec/programmatic", json=body)

        await again_and_again(2, once)
