import asyncio


async def first():
    return (await price("A"))["price"]


async def second(value):
    return (await add(a=value, b=1))


print(asyncio.run(second(asyncio.run(first()))))

# expect stdout:
# | 11
# expect calls: 2
