import asyncio


async def main():
    return await asyncio.gather(add(a=1, b=2), add(a=3, b=4))


loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
try:
    print(loop.run_until_complete(main()))
finally:
    loop.close()

# expect stdout:
# | [3, 7]
# expect calls: 2
# limits: monty
