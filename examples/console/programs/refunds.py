# Pay back what came late, and tell the customers
late = [order for order in await list_orders(region="north") if order["total"] > 300]
paid = await asyncio.gather(*(refund(order=order["id"], amount=order["total"]) for order in late), return_exceptions=True)
for order, answer in zip(late, paid):
    print(order["id"], answer)
print(await send_mail(to="finance@example.com", subject=f"{len(paid)} refunds"))
