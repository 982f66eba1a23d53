import asyncio


async def work():
    await slow(0.0)
    return "done"


print(await asyncio.wait_for(work(), timeout=5))

# expect stdout:
# | done
# expect calls: 1
# limits: monty
