class Pages:
    def __init__(self, tickers):
        self.tickers = list(tickers)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.tickers:
            raise StopAsyncIteration
        return await get_price(ticker=self.tickers.pop(0))

total = 0
async for page in Pages("ABC"):
    total += page["price"]
total

# topic: async
# expect value: 60
