import asyncio

rows = await asyncio.gather(*(price(ticker) for ticker in "ABC"))
[row["price"] for row in rows]

# expect value: [10, 20, 30]
# expect calls: 3
