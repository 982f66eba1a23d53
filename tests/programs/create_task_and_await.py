import asyncio

first = asyncio.create_task(price("A"))
second = asyncio.create_task(price("B"))
print((await first)["price"], (await second)["price"])

# expect stdout:
# | 10 20
# expect calls: 2
