import asyncio

try:
    async with asyncio.timeout(0.05):
        await slow(5)
except TimeoutError:
    print("too slow")

# expect stdout:
# | too slow
# expect calls: 1
# limits: monty
