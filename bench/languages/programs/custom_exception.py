class OutOfStock(Exception):
    def __init__(self, ticker):
        super().__init__(f"{ticker} is out of stock")
        self.ticker = ticker

try:
    raise OutOfStock("B")
except OutOfStock as error:
    answer = [str(error), error.ticker]
answer

# topic: classes
# expect value: ['B is out of stock', 'B']
