from asyncio import gather

rows = await gather(price("A"), price("B"))
[row["price"] for row in rows]

# expect value: [10, 20]
# expect calls: 2
