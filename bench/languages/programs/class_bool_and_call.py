class Filter:
    def __init__(self, limit):
        self.limit = limit

    def __bool__(self):
        return self.limit is not None

    def __call__(self, order):
        return order["amount"] > self.limit

keep = Filter(10)
orders = await get_orders(user_id="u1")
[bool(Filter(None)), [order["amount"] for order in orders if keep(order)]]

# topic: classes
# expect value: [False, [12, 30]]
