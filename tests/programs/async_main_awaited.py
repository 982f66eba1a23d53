async def main():
    rows = await get_expenses(user_id="u1", quarter=2)
    return sum(row["amount"] for row in rows)


await main()

# expect value: 25
# expect calls: 1
