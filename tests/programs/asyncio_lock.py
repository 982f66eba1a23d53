import asyncio

lock = asyncio.Lock()
steps = []


async def work(name):
    async with lock:
        steps.append(f"{name} in")
        await add(1, 1)
        steps.append(f"{name} out")


await asyncio.gather(work("a"), work("b"))
print(steps)

# expect stdout:
# | ['a in', 'a out', 'b in', 'b out']
# expect calls: 2
