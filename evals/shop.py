"""A shop: products, customers and orders."""

from typing import Literal, TypedDict

_NAMES = "lamp desk chair kettle mug plate bowl spoon knife towel pillow blanket mirror clock vase rug candle basket shelf stool tray jug pan pot".split()
_PEOPLE = "Ada Brook Cole Dara Eli Faye".split()
state = {
    "products": {
        n: {"name": n, "price": 4 + i * 7 % 53, "stock": i * 5 % 17, "category": ("home", "kitchen", "office")[i % 3]}
        for i, n in enumerate(_NAMES)
    },
    "orders": {
        str(100 + i): {
            "id": 100 + i, "customer": _PEOPLE[i * 5 % 6], "product": _NAMES[i * 7 % 24], "quantity": 1 + i % 4,
            "status": ("new", "paid", "shipped")[i * 2 % 3],
        }
        for i in range(14)
    },
    "credits": dict.fromkeys(_PEOPLE, 0),
}  # fmt: skip


class Product(TypedDict):
    name: str
    price: int
    stock: int
    category: str


class Order(TypedDict):
    id: int
    customer: str
    product: str
    quantity: int
    status: Literal["new", "paid", "shipped", "cancelled"]


def _find(table: str, key: object) -> dict:
    if str(key) not in state[table]:
        raise ValueError(f"no entry {key!r} in {table}")
    return state[table][str(key)]


def list_products(category: Literal["home", "kitchen", "office"] | None = None) -> list[Product]:
    """All products, or those of one category, with price and stock."""
    return [p for p in state["products"].values() if category in (None, p["category"])]


def get_product(name: str) -> Product:
    """One product by its name."""
    return _find("products", name)


def list_orders(customer: str | None = None) -> list[int]:
    """Ids of all orders, or of one customer's."""
    return [o["id"] for o in state["orders"].values() if customer in (None, o["customer"])]


def get_order(order_id: int) -> Order:
    """One order."""
    return _find("orders", order_id)


def set_price(name: str, price: int) -> str:
    """Change the price of a product."""
    _find("products", name)["price"] = price
    return "ok"


def restock(name: str, quantity: int) -> int:
    """Add to the stock of a product; returns the new stock."""
    _find("products", name)["stock"] += quantity
    return state["products"][name]["stock"]


def cancel_order(order_id: int) -> str:
    """Cancel an order that has not been shipped."""
    order = _find("orders", order_id)
    if order["status"] == "shipped":
        raise ValueError(f"order {order_id} is shipped and cannot be cancelled")
    order["status"] = "cancelled"
    return "cancelled"


def add_credit(customer: str, amount: int) -> int:
    """Give a customer store credit; returns the new credit."""
    if customer not in state["credits"]:
        raise ValueError(f"no customer {customer!r}")
    state["credits"][customer] += amount
    return state["credits"][customer]
