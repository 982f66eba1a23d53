class Desk:
    def __init__(self, tickers):
        self.prices = {ticker: price(ticker) for ticker in tickers}

    def dearest(self):
        return max(self.prices.values(), key=lambda one: one["price"])["ticker"]


Desk("ABC").dearest()

# expect value: "C"
# expect calls: 3
