import asyncio

await asyncio.wait_for(add(a=2, b=3), timeout=20)

# topic: async
# expect value: 5
