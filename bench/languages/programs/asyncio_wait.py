import asyncio

tasks = {asyncio.create_task(add(a=n, b=0)) for n in range(3)}
done, pending = await asyncio.wait(tasks)
[sorted(task.result() for task in done), len(pending)]

# topic: async
# expect value: [[0, 1, 2], 0]
