import asyncio

task = asyncio.create_task(tools.price("C"))
print((await task)["price"])

# expect stdout:
# | 30
# expect calls: 1
