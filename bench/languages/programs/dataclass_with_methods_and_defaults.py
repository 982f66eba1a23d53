from dataclasses import asdict, dataclass, field

@dataclass(order=True)
class Order:
    amount: float
    tags: list = field(default_factory=list, compare=False)

    @property
    def is_big(self):
        return self.amount > 15

orders = [Order(row["amount"]) for row in await get_orders(user_id="u1")]
orders[0].tags.append("first")
[asdict(max(orders)), [order.is_big for order in sorted(orders)]]

# topic: classes
# expect value: [{'amount': 30, 'tags': []}, [False, False, True]]
