"""The tools that programs call in the benchmark. Every runner gets the same functions."""

import asyncio

REGIONS = ("north", "east", "south", "west")


async def echo(value: int) -> int:
    """The value itself: what is left is the cost of a call."""
    return value


async def slow(value: int) -> int:
    """The value after 50 ms, as a tool on the network would give it."""
    await asyncio.sleep(0.05)
    return value


async def get_rows(count: int) -> list[dict]:
    """Rows of sales, made anew for each call."""
    return [
        {"id": index, "name": f"customer {index}", "amount": index * 7919 % 100_000 / 100, "region": REGIONS[index % 4]}
        for index in range(count)
    ]


TOOLS = (echo, slow, get_rows)
