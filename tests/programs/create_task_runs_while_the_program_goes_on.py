import asyncio

steps = []


async def work():
    steps.append("task")


task = asyncio.create_task(work())
steps.append("program")
await asyncio.sleep(0)
steps.append("after")
await task
steps

# expect value: ['program', 'task', 'after']
# limits: monty
