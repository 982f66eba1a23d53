"""What the programs of the language table may call."""

import asyncio
import json

USERS = [
    {"id": "u1", "name": "Ada", "team": "core"},
    {"id": "u2", "name": "Bo", "team": "web"},
    {"id": "u3", "name": "Cy", "team": "core"},
]
ORDERS = {"u1": [("pen", 5), ("book", 12), ("lamp", 30)], "u2": [("desk", 8)], "u3": [("chair", 25), ("mug", 4)]}
PRICES = {"A": 10, "B": 20, "C": 30}


async def get_users() -> list[dict]:
    """Everyone, with id, name and team."""
    return USERS


async def get_orders(user_id: str) -> list[dict]:
    """What one user has ordered, with item and amount."""
    return [{"item": item, "amount": amount} for item, amount in ORDERS[user_id]]


async def get_price(ticker: str) -> dict:
    """The price of A, B or C."""
    return {"ticker": ticker, "price": PRICES[ticker]}


async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


async def wait(seconds: float) -> float:
    """The seconds, after they have passed."""
    await asyncio.sleep(seconds)
    return seconds


async def fail(message: str) -> str:
    """Always fails, with that message."""
    raise RuntimeError(message)


async def get_report(name: str) -> str:
    """A report as JSON text."""
    return json.dumps({"name": name, "total": 84})


TOOLS = (get_users, get_orders, get_price, add, wait, fail, get_report)
