import asyncio

async with asyncio.timeout(20):
    price = await get_price(ticker="C")
price["price"]

# topic: async
# expect value: 30
