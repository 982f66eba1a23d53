async def main():
    total = 0
    for user in await get_users():
        for order in await get_orders(user_id=user["id"]):
            total += order["amount"]
    return total

await main()

# topic: async
# expect value: 84
