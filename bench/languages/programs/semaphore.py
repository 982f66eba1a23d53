import asyncio

limit = asyncio.Semaphore(2)

async def fetch(ticker):
    async with limit:
        return (await get_price(ticker=ticker))["price"]

await asyncio.gather(*(fetch(ticker) for ticker in "ABC"))

# topic: async
# expect value: [10, 20, 30]
