import asyncio

rows = await asyncio.gather(*[add(n, n) for n in range(100)])
print(sum(rows))

# expect stdout:
# | 9900
# expect calls: 100
