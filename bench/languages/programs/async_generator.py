async def orders():
    for user in await get_users():
        for order in await get_orders(user_id=user["id"]):
            yield order

[order["amount"] async for order in orders() if order["amount"] > 10]

# topic: async
# expect value: [12, 30, 25]
