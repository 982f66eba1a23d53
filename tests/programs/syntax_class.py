class Basket:
    def __init__(self):
        self.rows = []

    async def put(self, ticker):
        self.rows.append(await price(ticker))
        return self

    def total(self):
        return sum(row["price"] for row in self.rows)


basket = Basket()
await basket.put("A")
await basket.put("C")
print(basket.total())

# expect stdout:
# | 40
# expect calls: 2
