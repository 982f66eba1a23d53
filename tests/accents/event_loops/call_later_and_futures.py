import asyncio


async def main():
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_later(0.001, future.set_result, "later")
    print(await future, await loop.run_in_executor(None, lambda: 7))
    print((await price("B"))["price"])


asyncio.run(main())

# expect stdout:
# | later 7
# | 20
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'price' would do
# limits: monty
