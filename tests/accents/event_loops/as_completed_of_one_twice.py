import asyncio


async def work():
    return 1


one = work()
print([await done for done in asyncio.as_completed([one, one])])

# expect stdout:
# | [1]
# limits: monty
