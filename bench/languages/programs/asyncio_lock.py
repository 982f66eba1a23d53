import asyncio

lock = asyncio.Lock()
balance = 0

async def deposit(amount):
    global balance
    async with lock:
        before = balance
        after = await add(a=before, b=amount)
        balance = after

await asyncio.gather(*(deposit(n) for n in [10, 20, 30]))
balance

# topic: async
# expect value: 60
