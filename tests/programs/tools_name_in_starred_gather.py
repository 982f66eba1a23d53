import asyncio

rows = await asyncio.gather(*[tools.price(ticker) for ticker in "ABC"])
print(sum(row["price"] for row in rows))

# expect stdout:
# | 60
# expect calls: 3
