import asyncio


async def pair(n):
    return sum(await asyncio.gather(add(n, 1), add(n, 2)))


await asyncio.gather(pair(1), pair(10))

# expect value: [5, 23]
# expect calls: 4
