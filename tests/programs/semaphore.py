import asyncio

limit = asyncio.Semaphore(2)


async def one(n):
    async with limit:
        return await add(n, n)


print(await asyncio.gather(*[one(n) for n in range(6)]))

# expect stdout:
# | [0, 2, 4, 6, 8, 10]
# expect calls: 6
