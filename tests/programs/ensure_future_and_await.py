import asyncio

task = asyncio.ensure_future(add(1, 1))
print(await task)

# expect stdout:
# | 2
# expect calls: 1
