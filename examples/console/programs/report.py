# Revenue of the open orders, by region and by the customer's tier
from collections import defaultdict

regions = ["north", "south", "east", "west"]
pages = await asyncio.gather(*(list_orders(region=region, page=page) for region in regions for page in (1, 2, 3)))
orders = [order for page in pages for order in page]
print(f"{len(orders)} orders in {len(regions)} regions")

totals = defaultdict(float)
for start in range(0, 60, 12):
    customers = await asyncio.gather(*(get_customer(order=order["id"]) for order in orders[start:start + 12]))
    for order, customer in zip(orders[start:], customers):
        totals[customer["tier"]] += await convert(amount=order["total"], currency="EUR")
    print("after", start + 12, "orders:", {tier: round(total) for tier, total in totals.items()})

{tier: round(total, 2) for tier, total in totals.items()}
