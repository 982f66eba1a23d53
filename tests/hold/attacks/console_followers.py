"""More live streams of the console than the server has connections."""

from tests.hold.target import Target, again_and_again

ITEM = 14
HTTP = "max_connections: 60"
OPTIONS = ("--console",)


async def attack(target: Target) -> None:
    async with target.client() as client:

        async def once(_: int) -> None:
            async with client.stream("GET", "/console/api/events") as stream:
                async for _bytes in stream.aiter_bytes():
                    pass

        await again_and_again(100, once)
