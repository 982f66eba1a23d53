import asyncio

async def later(name, seconds):
    await asyncio.sleep(seconds)
    return name

await asyncio.gather(later("second", 0.02), later("first", 0.0))

# topic: async
# expect value: ['second', 'first']
