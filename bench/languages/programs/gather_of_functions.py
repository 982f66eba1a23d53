import asyncio

async def spent(user):
    orders = await get_orders(user_id=user["id"])
    return user["name"], sum(order["amount"] for order in orders)

dict(await asyncio.gather(*(spent(user) for user in await get_users())))

# topic: async
# expect value: {'Ada': 47, 'Bo': 8, 'Cy': 29}
