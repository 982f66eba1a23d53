async def spent(user_id):
    return sum(row["amount"] for row in await get_expenses(user_id))


async def report():
    lines = []
    for user in await get_users():
        lines.append(f"{user['name']}: {await spent(user['id'])}")
    return lines


print("\n".join(await report()))

# expect stdout:
# | Ada: 15
# | Bo: 15
# | Cy: 15
# expect calls: 4
