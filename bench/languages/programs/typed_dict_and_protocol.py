from typing import Protocol, TypedDict

class Priced(TypedDict):
    ticker: str
    price: float

class HasName(Protocol):
    name: str

def show(row: Priced) -> str:
    return f"{row['ticker']}={row['price']}"

row: Priced = await get_price(ticker="A")
show(row)

# topic: classes
# expect value: 'A=10'
