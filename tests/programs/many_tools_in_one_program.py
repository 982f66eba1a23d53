import asyncio

users = await get_users()
rows = await asyncio.gather(*[get_expenses(user["id"], quarter) for user in users for quarter in (1, 2, 3, 4)])
by_user = {}
for one in rows:
    for row in one:
        by_user[row["user"]] = by_user.get(row["user"], 0) + row["amount"]
over = {user: amount for user, amount in by_user.items() if amount > 100}
print(over)

# expect stdout:
# | {'u1': 120, 'u2': 120, 'u3': 120}
# expect calls: 13
