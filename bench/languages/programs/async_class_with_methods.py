class Shop:
    def __init__(self):
        self.cache = {}

    async def price(self, ticker):
        if ticker not in self.cache:
            self.cache[ticker] = (await get_price(ticker=ticker))["price"]
        return self.cache[ticker]

shop = Shop()
[await shop.price("A"), await shop.price("A"), len(shop.cache)]

# topic: async
# expect value: [10, 10, 1]
