import asyncio

rows = await asyncio.gather(tools.price("A"), tools.finance.price("B"))
print([row["price"] for row in rows])

# expect stdout:
# | [10, 20]
# expect calls: 2
