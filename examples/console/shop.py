"""Tools of a made-up shop: slow enough to watch, and some of them need a yes."""

import asyncio
import random

from toolfold import tool

_luck = random.Random(7)


@tool
async def list_orders(region: str, page: int = 1) -> list[dict[str, object]]:
    """Orders of a region, 20 to a page."""
    await asyncio.sleep(0.15 + _luck.random() * 0.5)
    return [
        {"id": page * 100 + at, "region": region, "total": round(20 + _luck.random() * 400, 2), "status": "open"}
        for at in range(20)
    ]


@tool
async def get_customer(order: int) -> dict[str, object]:
    """The customer of an order."""
    await asyncio.sleep(0.05 + _luck.random() * 0.6)
    return {"order": order, "name": f"Customer {order}", "tier": _luck.choice(["free", "plus", "gold"])}


@tool
async def convert(amount: float, currency: str) -> float:
    """An amount in another currency."""
    await asyncio.sleep(0.03 + _luck.random() * 0.1)
    if currency == "XXX":
        raise ValueError("no rate for 'XXX'; use a code of ISO 4217")
    return round(amount * 0.92, 2)


@tool
async def refund(order: int, amount: float, reason: str = "late") -> str:
    """Pays an order back."""
    await asyncio.sleep(0.1)
    return f"refunded {amount} for order {order}: {reason}"


@tool
async def send_mail(to: str, subject: str) -> str:
    """Sends a mail."""
    await asyncio.sleep(0.1)
    return f"sent {subject!r} to {to}"
