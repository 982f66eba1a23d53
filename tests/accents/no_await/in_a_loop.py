prices = {}
for user in get_users():
    for expense in get_expenses(user["id"]):
        prices[user["name"]] = prices.get(user["name"], 0) + expense["amount"]
print(prices)

# expect stdout:
# | {'Ada': 15, 'Bo': 15, 'Cy': 15}
# expect calls: 4
# expect hints:
# | 3 calls of 'get_expenses' ran one after another; 'await asyncio.gather(*[get_expenses(...) for ...])' runs independent calls at once
