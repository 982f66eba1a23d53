import asyncio

prices = await asyncio.gather(*[get_price(ticker=ticker) for ticker in ["A", "B", "C"]])
sum(row["price"] for row in prices)

# topic: async
# expect value: 60
