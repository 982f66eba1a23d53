total = 0

def count(amount):
    global total
    total += amount

for order in await get_orders(user_id="u1"):
    count(order["amount"])
total

# topic: syntax
# expect value: 47
