spent = {}
for user in await get_users():
    orders = await get_orders(user_id=user["id"])
    spent[user["name"]] = sum(order["amount"] for order in orders)
spent

# topic: calls
# expect value: {'Ada': 47, 'Bo': 8, 'Cy': 29}
