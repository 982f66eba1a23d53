from typing import NamedTuple

class Row(NamedTuple):
    name: str
    price: float

rows = [Row(ticker, (await get_price(ticker=ticker))["price"]) for ticker in "AB"]
best = max(rows, key=lambda row: row.price)
[best.name, best._asdict()]

# topic: classes
# expect value: ['B', {'name': 'B', 'price': 20}]
