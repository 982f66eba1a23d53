import asyncio

queue = asyncio.Queue()
for n in range(6):
    queue.put_nowait(n)
results = []

async def worker():
    while not queue.empty():
        n = queue.get_nowait()
        results.append(await add(a=n, b=100))

await asyncio.gather(worker(), worker())
sorted(results)

# topic: async
# expect value: [100, 101, 102, 103, 104, 105]
