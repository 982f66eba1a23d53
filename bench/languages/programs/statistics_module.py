import statistics

amounts = [order["amount"] for user in await get_users() for order in await get_orders(user_id=user["id"])]
[round(statistics.mean(amounts), 2), statistics.median(amounts), round(statistics.stdev(amounts), 3)]

# topic: modules
# expect value: [14, 10.0, 10.936]
