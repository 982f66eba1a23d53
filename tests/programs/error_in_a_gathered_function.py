import asyncio


async def work(n):
    n = await add(n, 0)
    if n == 2:
        raise RuntimeError(f"item {n}")
    return n


await asyncio.gather(*[work(n) for n in range(3)])

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 11, in __main__
# |     await asyncio.gather(*[work(n) for n in range(3)])
# |   File "<program>", line 7, in work
# |     raise RuntimeError(f"item {n}")
# | RuntimeError: item 2
# expect calls: 3
# limits: monty
