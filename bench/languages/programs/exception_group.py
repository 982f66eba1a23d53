import asyncio

async def check(n):
    if n % 2:
        raise ValueError(f"odd {n}")
    return await add(a=n, b=0)

caught = []
try:
    async with asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(check(n))
except* ValueError as errors:
    caught = sorted(str(error) for error in errors.exceptions)
caught

# topic: async
# expect value: ['odd 1', 'odd 3']
