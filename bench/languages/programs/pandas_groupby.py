import pandas as pd

rows = []
for user in await get_users():
    for order in await get_orders(user_id=user["id"]):
        rows.append({"team": user["team"], "amount": order["amount"]})
frame = pd.DataFrame(rows)
frame.groupby("team")["amount"].sum().to_dict()

# topic: data
# expect value: {'core': 76, 'web': 8}
