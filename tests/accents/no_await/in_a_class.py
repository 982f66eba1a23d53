class Desk:
    def __init__(self, tickers):
        self.prices = {ticker: price(ticker) for ticker in tickers}

    def dearest(self):
        return max(self.prices.values(), key=lambda one: one["price"])["ticker"]


Desk("ABC").dearest()

# expect value: "C"
# expect calls: 3
# expect hints:
# | 3 calls of 'price' ran one after another; 'await asyncio.gather(*[price(...) for ...])' runs independent calls at once
