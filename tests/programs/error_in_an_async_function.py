async def total(user_id):
    rows = await get_expenses(user_id)
    return rows["amount"]


async def main():
    return await total("u1")


await main()

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 10, in __main__
# |     await main()
# |   File "<program>", line 7, in main
# |     return await total("u1")
# |   File "<program>", line 3, in total
# |     return rows["amount"]
# | TypeError: list indices must be integers or slices, not str
# expect calls: 1
