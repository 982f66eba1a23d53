class Cart:
    def __init__(self, owner):
        self.owner = owner
        self.items = []

    def add_item(self, name, price):
        self.items.append((name, price))
        return self

    def total(self):
        return sum(price for _, price in self.items)

cart = Cart("Ada").add_item("A", (await get_price(ticker="A"))["price"]).add_item("B", 5)
{"owner": cart.owner, "total": cart.total()}

# topic: classes
# expect value: {'owner': 'Ada', 'total': 15}
