orders = await get_orders(user_id="u1")
["small" if order["amount"] < 10 else "medium" if 10 <= order["amount"] < 20 else "big" for order in orders]

# topic: syntax
# expect value: ['small', 'medium', 'big']
