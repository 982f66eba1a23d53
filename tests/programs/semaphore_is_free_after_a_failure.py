import asyncio

limit = asyncio.Semaphore(1)


async def work(n):
    async with limit:
        if n == 0:
            await fail("first")
        return await add(n, 0)


results = await asyncio.gather(work(0), work(1), return_exceptions=True)
print(results[0], results[1])

# expect stdout:
# | 'fail' failed: first 1
# expect calls: 2
