import asyncio

queue = asyncio.Queue()


async def work():
    while True:
        n = await queue.get()
        print(await add(n, 100))
        queue.task_done()


for n in range(3):
    queue.put_nowait(n)
worker = asyncio.create_task(work())
await queue.join()
worker.cancel()
print("done")

# expect stdout:
# | 100
# | 101
# | 102
# | done
# expect calls: 3
# limits: monty
