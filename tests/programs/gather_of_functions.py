import asyncio


async def spent(user):
    rows = await get_expenses(user["id"])
    return user["name"], sum(row["amount"] for row in rows)


async def main():
    users = await get_users()
    for name, amount in await asyncio.gather(*[spent(user) for user in users]):
        print(name, amount)


await main()

# expect stdout:
# | Ada 15
# | Bo 15
# | Cy 15
# expect calls: 4
