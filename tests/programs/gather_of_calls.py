import asyncio

users, rows = await asyncio.gather(get_users(), get_expenses("u1"))
print(len(users), len(rows))

# expect stdout:
# | 3 2
# expect calls: 2
