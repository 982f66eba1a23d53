total = 0


async def spend(user_id):
    global total
    for row in await get_expenses(user_id):
        total += row["amount"]


await spend("u1")
await spend("u2")
print(total)

# expect stdout:
# | 30
# expect calls: 2
