import asyncio

total = 0
for next_done in asyncio.as_completed([add(a=n, b=1) for n in range(4)]):
    total += await next_done
total

# topic: async
# expect value: 10
