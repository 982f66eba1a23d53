import asyncio

tasks = [asyncio.create_task(add(a=n, b=n)) for n in range(5)]
[await task for task in tasks]

# topic: async
# expect value: [0, 2, 4, 6, 8]
