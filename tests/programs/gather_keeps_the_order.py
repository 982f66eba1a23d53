import asyncio

await asyncio.gather(slow(0.02), slow(0.0), slow(0.01))

# expect value: [0.02, 0.0, 0.01]
# expect calls: 3
