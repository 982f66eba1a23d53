import asyncio


async def main():
    return {"sum": await add(a=1, b=2)}


asyncio.run(main())

# expect value: {'sum': 3}
# expect calls: 1
