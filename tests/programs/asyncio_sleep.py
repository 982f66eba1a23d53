import asyncio


async def late(name, seconds):
    await asyncio.sleep(seconds)
    print(name)


await asyncio.gather(late("second", 0.05), late("first", 0.0))

# expect stdout:
# | first
# | second
# expect value: [None, None]
